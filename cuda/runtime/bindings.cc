// The Python module jwarp._native.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "compiler.h"
#include "fault.h"
#include "handler.h"
#include "run.h"
#include "share.h"
#include "table.h"

namespace py = pybind11;

namespace jwarp {
namespace {

constexpr int64_t kMaxThreads = 1024;

// Threads of one call, started when they are first needed and joined when it ends.
class CallPool final : public Pool {
 public:
  explicit CallPool(int64_t threads) : threads_(threads) {}
  ~CallPool() override {
    for (std::thread& thread : started_) thread.join();
  }

  int64_t threads() override { return threads_; }

  bool schedule(Task task, void* data) override {
    try {
      started_.emplace_back(task, data);
      return true;
    } catch (const std::exception&) {
      return false;  // no more threads to be had: the caller does the work
    }
  }

 private:
  int64_t threads_;
  std::vector<std::thread> started_;
};

int64_t available_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

// The numbers in an int64 array, or in bytes that hold them.
std::vector<int64_t> read_numbers(const py::buffer& source, const char* what) {
  const py::buffer_info info = source.request();
  const bool is_bytes = info.itemsize == 1;
  const bool is_int64 = info.itemsize == sizeof(int64_t) && (info.format == "l" || info.format == "q");
  if (info.ndim != 1 || info.strides[0] != info.itemsize || !(is_bytes || is_int64) ||
      (info.size * info.itemsize) % sizeof(int64_t) != 0) {
    throw py::value_error(std::string("jwarp: ") + what +
                          " must be a contiguous one-dimensional int64 array or the bytes of one");
  }
  std::vector<int64_t> numbers(info.size * info.itemsize / sizeof(int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), info.ptr, numbers.size() * sizeof(int64_t));
  return numbers;
}

XLA_FFI_DataType dtype_code(const py::dtype& dtype) {
  const char order = dtype.byteorder();
  if (order == '=' || order == '|') {
    const py::ssize_t size = dtype.itemsize();
    switch (dtype.kind()) {
      case 'b':
        return XLA_FFI_DataType_PRED;
      case 'i':
        return size == 1   ? XLA_FFI_DataType_S8
               : size == 2 ? XLA_FFI_DataType_S16
               : size == 4 ? XLA_FFI_DataType_S32
                           : XLA_FFI_DataType_S64;
      case 'u':
        return size == 1   ? XLA_FFI_DataType_U8
               : size == 2 ? XLA_FFI_DataType_U16
               : size == 4 ? XLA_FFI_DataType_U32
                           : XLA_FFI_DataType_U64;
      case 'f':
        if (size == 2) return XLA_FFI_DataType_F16;
        if (size == 4) return XLA_FFI_DataType_F32;
        if (size == 8) return XLA_FFI_DataType_F64;
        break;
      default:
        break;
    }
    if (py::str(dtype.attr("name")).cast<std::string>() == "bfloat16") return XLA_FFI_DataType_BF16;
  }
  throw py::value_error("jwarp: kernels have no dtype " + py::str(dtype).cast<std::string>());
}

// NumPy arrays in the form in which XLA hands over its buffers.
class ArrayBuffers {
 public:
  ArrayBuffers(const py::sequence& arrays, int64_t result_count)
      : buffers_(arrays.size()), shapes_(arrays.size()) {
    const int64_t count = static_cast<int64_t>(arrays.size());
    operand_count_ = count - result_count;
    if (operand_count_ < 0) throw py::value_error("jwarp: fewer arrays than the launch has results");
    for (int64_t i = 0; i < count; ++i) add(i, py::object(arrays[i]));
  }

  Buffers view() const {
    return {pointers_.data(), operand_count_, pointers_.data() + operand_count_,
            static_cast<int64_t>(pointers_.size()) - operand_count_};
  }

 private:
  void add(int64_t i, const py::handle& item) {
    const std::string name = "jwarp: array " + std::to_string(i);
    if (!py::isinstance<py::array>(item)) throw py::type_error(name + " is not a NumPy array");
    const auto array = py::reinterpret_borrow<py::array>(item);
    if (!(array.flags() & py::array::c_style)) throw py::value_error(name + " is not contiguous");
    if (i >= operand_count_ && !array.writeable()) throw py::value_error(name + " is read-only");
    if (array.size() > 0 && reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() != 0) {
      throw py::value_error(name + " is not aligned to its element size");
    }
    shapes_[i].assign(array.shape(), array.shape() + array.ndim());
    buffers_[i] = {XLA_FFI_Buffer_STRUCT_SIZE,
                   nullptr,
                   dtype_code(array.dtype()),
                   const_cast<void*>(array.data()),
                   static_cast<int64_t>(shapes_[i].size()),
                   shapes_[i].data()};
    pointers_.push_back(&buffers_[i]);
  }

  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<void*> pointers_;
  int64_t operand_count_;
};

Entry entry_at(uintptr_t address) { return reinterpret_cast<Entry>(address); }

py::dict handlers() {
  py::dict result;
  result["instantiate"] = py::capsule(reinterpret_cast<void*>(instantiate_launch));
  result["execute"] = py::capsule(reinterpret_cast<void*>(execute_launch));
  return result;
}

void register_entries(const std::string& fingerprint, const py::buffer& plan, uintptr_t fast,
                      uintptr_t checked) {
  const std::vector<int64_t> numbers = read_numbers(plan, "a plan");
  register_kernel(fingerprint, Plan(numbers.data(), static_cast<int64_t>(numbers.size())), entry_at(fast),
                  entry_at(checked));
}

std::tuple<bool, bool> known_versions(const std::string& fingerprint) {
  Kernel* kernel = find_kernel(fingerprint);
  if (kernel == nullptr) return {false, false};
  return {kernel->fast.load() != nullptr, kernel->checked.load() != nullptr};
}

void limit_threads(int64_t limit, bool eager) {
  if (limit < 0 || limit > kMaxThreads) {
    throw py::value_error("jwarp: the thread limit must lie between 0 and " + std::to_string(kMaxThreads));
  }
  set_thread_limit(limit, eager);
}

void run_launch(const std::string& fingerprint, const py::buffer& launch, const py::sequence& operands,
                int64_t threads) {
  if (threads < 0 || threads > kMaxThreads) {
    throw py::value_error("jwarp: threads must lie between 0 and " + std::to_string(kMaxThreads));
  }
  const std::vector<int64_t> numbers = read_numbers(launch, "a launch");
  Launch decoded(numbers.data(), static_cast<int64_t>(numbers.size()));
  const ArrayBuffers arrays(operands, decoded.result_count);

  const py::gil_scoped_release no_gil;
  CallSite site(require_kernel(fingerprint, {}), std::move(decoded));
  CallPool pool(threads == 0 ? available_cpus() : threads);
  run_compiling(site, arrays.view(), pool, [] { return std::string_view(); });
}

void translate_fault(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Fault& fault) {
    const bool is_argument = fault.code() == XLA_FFI_Error_Code_INVALID_ARGUMENT;
    py::set_error(is_argument ? PyExc_ValueError : PyExc_RuntimeError, fault.what());
  }
}

}  // namespace
}  // namespace jwarp

PYBIND11_MODULE(_native, m) {
  m.doc() = "XLA custom call handlers and the CPU launcher of jwarp.";
  py::register_local_exception_translator(jwarp::translate_fault);

  m.def("handlers", &jwarp::handlers, "The handlers of the custom call jwarp_launch_v1, by stage.");
  m.def("register_kernel", &jwarp::register_entries, py::arg("fingerprint"), py::arg("plan"), py::arg("fast"),
        py::arg("checked"), "Adds compiled entries, by address; 0 is one that is not compiled.");
  m.def("known_versions", &jwarp::known_versions, py::arg("fingerprint"),
        "Whether the fast and the checked version of a kernel are compiled.");
  m.def("set_compiler", &jwarp::set_compiler, py::arg("callback").none(true),
        "Sets callback(fingerprint, program, version), which compiles and registers what a launch lacks.");
  m.def("set_thread_limit", &jwarp::limit_threads, py::arg("limit"), py::kw_only(), py::arg("eager") = false,
        "Sets how many threads share a launch; 0 is all of the pool. Eager shares even short launches.");
  m.def("ffi_api_version", [] { return std::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR); },
        "Major and minor version of the XLA headers that this module was built with.");
  m.def("run_launch", &jwarp::run_launch, py::arg("fingerprint"), py::arg("launch"), py::arg("operands"),
        py::arg("threads") = 1, "Runs a launch on NumPy arrays, operands then results, without XLA.");
}
