// Reading the structs of DLPack.
#include "python/device_array.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>

#include "core/dtype.h"

namespace py = pybind11;

namespace jwarp::gpu {
namespace {

// As in dlpack.h, versions 0 and 1.
struct Tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t rank;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  const int64_t* shape;
  const int64_t* strides;  // in elements; null for a contiguous array
  uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* owner;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* owner;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

constexpr uint32_t kMajorVersion = 1;
constexpr uint64_t kReadOnly = 1;
constexpr int32_t kCuda = 2, kCudaManaged = 13;

template <typename T>
void release(void* managed) {
  auto* const given = static_cast<T*>(managed);
  if (given->deleter != nullptr) given->deleter(given);
}

int64_t dtype_code(uint8_t code, uint8_t bits) {
  constexpr uint8_t kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6;
  const auto by_width = [bits](int64_t w8, int64_t w16, int64_t w32, int64_t w64) {
    return bits == 8 ? w8 : bits == 16 ? w16 : bits == 32 ? w32 : bits == 64 ? w64 : 0;
  };
  switch (code) {
    case kInt:
      return by_width(XLA_FFI_DataType_S8, XLA_FFI_DataType_S16, XLA_FFI_DataType_S32, XLA_FFI_DataType_S64);
    case kUint:
      return by_width(XLA_FFI_DataType_U8, XLA_FFI_DataType_U16, XLA_FFI_DataType_U32, XLA_FFI_DataType_U64);
    case kFloat:
      return by_width(0, XLA_FFI_DataType_F16, XLA_FFI_DataType_F32, XLA_FFI_DataType_F64);
    case kBfloat:
      return bits == 16 ? XLA_FFI_DataType_BF16 : 0;
    case kBool:
      return bits == 8 ? XLA_FFI_DataType_PRED : 0;
    default:
      return 0;
  }
}

// The struct in a capsule of that name, which is then marked as taken; null for a capsule of another name.
template <typename T>
T* take(PyObject* capsule, const char* name, const char* used) {
  if (!PyCapsule_IsValid(capsule, name)) return nullptr;
  auto* const managed = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (PyCapsule_SetName(capsule, used) != 0) throw py::error_already_set();
  return managed;
}

// The reason why there can be no such array; empty if there can be one.
std::string contradiction(const Tensor& tensor) {
  constexpr int32_t kMaxRank = 64;
  constexpr int64_t kMaxBytes = int64_t{1} << 47;  // no address is beyond this
  if (tensor.rank < 0 || tensor.rank > kMaxRank) return "its rank is " + std::to_string(tensor.rank);
  const int64_t* const end = tensor.shape + tensor.rank;
  const auto negative = std::find_if(tensor.shape, end, [](int64_t extent) { return extent < 0; });
  if (negative != end) return "an extent is " + std::to_string(*negative);
  if (std::find(tensor.shape, end, 0) != end) return {};
  if (tensor.data == nullptr) return "its address is NULL";
  __int128 elements = 1, reach = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    elements *= tensor.shape[axis];
    if (tensor.strides != nullptr) {
      const __int128 stride = tensor.strides[axis];
      reach += (stride < 0 ? -stride : stride) * (tensor.shape[axis] - 1);
    }
    if (elements > kMaxBytes || reach > kMaxBytes) return "no memory is as large as its extents and strides say";
  }
  return {};
}

}  // namespace

std::string dlpack_contradiction(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* const managed =
        static_cast<ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    return managed->major == kMajorVersion ? contradiction(managed->tensor) : std::string();
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor")) return {};
  return contradiction(static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor);
}

DeviceArray::DeviceArray(const py::object& capsule) {
  const Tensor* tensor = nullptr;
  if (auto* versioned = take<ManagedVersioned>(capsule.ptr(), "dltensor_versioned", "used_dltensor_versioned")) {
    managed_ = versioned;
    release_ = release<ManagedVersioned>;
    // Only the first fields are the same in every version.
    if (versioned->major == kMajorVersion) tensor = &versioned->tensor;
    read_only_ = tensor == nullptr || (versioned->flags & kReadOnly) != 0;
  } else if (auto* plain = take<Managed>(capsule.ptr(), "dltensor", "used_dltensor")) {
    managed_ = plain;
    release_ = release<Managed>;
    tensor = &plain->tensor;
    read_only_ = false;
  } else {
    throw py::type_error("jwarp: this is no capsule of DLPack, or it was taken before");
  }
  const bool is_cuda = tensor != nullptr && (tensor->device_type == kCuda || tensor->device_type == kCudaManaged);
  if (!is_cuda) {
    release_(managed_);
    throw py::value_error("jwarp: this is no array on a CUDA device, or of a version of DLPack that is not known");
  }
  if (const std::string fault = contradiction(*tensor); !fault.empty()) {
    release_(managed_);
    throw py::value_error("jwarp: the description of an array by DLPack is damaged: " + fault);
  }
  address_ = reinterpret_cast<uintptr_t>(tensor->data) + tensor->byte_offset;
  device_ = tensor->device_id;
  dtype_ = tensor->dtype.lanes == 1 ? dtype_code(tensor->dtype.code, tensor->dtype.bits) : 0;
  shape_.assign(tensor->shape, tensor->shape + tensor->rank);
  strides_.resize(shape_.size());
  int64_t stride = 1;
  for (size_t axis = shape_.size(); axis-- > 0;) {
    strides_[axis] = (tensor->strides != nullptr ? tensor->strides[axis] : stride) * item_size(dtype_);
    stride *= shape_[axis];
  }
}

namespace {

// A struct of DLPack's with the extents that it points to, and the Python object whose memory it describes.
template <typename T>
struct Exported {
  T managed;
  std::vector<int64_t> shape, strides;
  py::object owner;
};

template <typename T>
void destroy(T* managed) {
  const py::gil_scoped_acquire gil;
  delete static_cast<Exported<T>*>(managed->owner);
}

// Of a capsule that nobody took.
template <typename T>
void drop(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name)) release<T>(PyCapsule_GetPointer(capsule, name));
}

template <typename T>
T* exported(const Lent& lent) {
  auto* const made = new Exported<T>{{}, lent.shape, lent.strides, lent.owner};
  made->managed.owner = made;
  made->managed.deleter = destroy<T>;
  made->managed.tensor = {reinterpret_cast<void*>(lent.address),
                          kCuda,
                          lent.device,
                          static_cast<int32_t>(made->shape.size()),
                          {lent.kind, lent.bits, 1},
                          made->shape.data(),
                          made->strides.data(),
                          0};
  return &made->managed;
}

py::object capsule_of(void* managed, const char* name, void (*unused)(PyObject*)) {
  PyObject* const made = PyCapsule_New(managed, name, unused);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace

py::object lend(const Lent& lent, bool versioned) {
  if (!versioned) {
    return capsule_of(exported<Managed>(lent), "dltensor", [](PyObject* c) { drop<Managed>(c, "dltensor"); });
  }
  auto* const managed = exported<ManagedVersioned>(lent);
  managed->major = kMajorVersion;
  managed->minor = 0;
  managed->flags = 0;
  return capsule_of(managed, "dltensor_versioned",
                    [](PyObject* c) { drop<ManagedVersioned>(c, "dltensor_versioned"); });
}

}  // namespace jwarp::gpu
