// Running what was kept for calls of one layout.
#include "python/executables.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/dtype.h"
#include "python/arrays.h"
#include "python/raw_call.h"

namespace py = pybind11;

namespace jwarp {
namespace {

constexpr size_t kMostDirect = 160;

PyObject *host_name, *is_watched_name, *will_write_name, *call_name;

uint64_t address_of(const void* thing) { return reinterpret_cast<uint64_t>(thing); }

py::object not_implemented() { return py::reinterpret_borrow<py::object>(Py_NotImplemented); }

bool is_number(const Leaf& leaf) { return leaf.part == Part::kFloat || leaf.part == Part::kInt || leaf.part == Part::kBool; }

template <typename T>
bool store(int64_t number, void* into) {
  const T made = static_cast<T>(number);
  std::memcpy(into, &made, sizeof(T));
  return static_cast<int64_t>(made) == number;
}

bool store_float(double made, int64_t dtype, void* into) {
  if (!(-kLarge < made && made < kLarge)) return false;
  const float small = static_cast<float>(made);
  if (dtype == XLA_FFI_DataType_F32) {
    std::memcpy(into, &small, 4);
  } else {
    std::memcpy(into, &made, 8);
  }
  return true;
}

// The bytes of a number; false where Python has to look.
bool convert(const Leaf& leaf, int64_t dtype, void* into) {
  if (leaf.part == Part::kBool) {
    const uint8_t made = leaf.given == Py_True;
    if (dtype != XLA_FFI_DataType_PRED) return false;
    std::memcpy(into, &made, 1);
    return true;
  }
  if (dtype == XLA_FFI_DataType_F32 || dtype == XLA_FFI_DataType_F64) {
    const double made = leaf.part == Part::kFloat ? PyFloat_AS_DOUBLE(leaf.given) : PyLong_AsDouble(leaf.given);
    if (made == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
    return store_float(made, dtype, into);
  }
  if (leaf.part != Part::kInt) return false;
  if (dtype == XLA_FFI_DataType_U64) {
    const uint64_t made = PyLong_AsUnsignedLongLong(leaf.given);
    if (PyErr_Occurred()) return PyErr_Clear(), false;
    std::memcpy(into, &made, 8);
    return true;
  }
  int overflow = 0;
  const int64_t made = PyLong_AsLongLongAndOverflow(leaf.given, &overflow);
  if (overflow != 0) return false;
  switch (dtype) {
    case XLA_FFI_DataType_S8:
      return store<int8_t>(made, into);
    case XLA_FFI_DataType_S16:
      return store<int16_t>(made, into);
    case XLA_FFI_DataType_S32:
      return store<int32_t>(made, into);
    case XLA_FFI_DataType_S64:
      return store<int64_t>(made, into);
    case XLA_FFI_DataType_U8:
      return store<uint8_t>(made, into);
    case XLA_FFI_DataType_U16:
      return store<uint16_t>(made, into);
    case XLA_FFI_DataType_U32:
      return store<uint32_t>(made, into);
    default:
      return false;
  }
}

// The bytes of one of NumPy's numbers: of just the type, or a float64 for another float.
bool convert_numpy(PyObject* number, int64_t dtype, const py::dtype& type, void* into) {
  const bool is_float = dtype == XLA_FFI_DataType_F32 || dtype == XLA_FFI_DataType_F64;
  if (PyFloat_Check(number) && is_float) return store_float(PyFloat_AS_DOUBLE(number), dtype, into);
  const py::array given = py::array::ensure(py::handle(number));
  if (!given || given.ndim() != 0 || !given.dtype().equal(type)) return PyErr_Clear(), false;
  std::memcpy(into, given.data(), static_cast<size_t>(given.itemsize()));
  return true;
}

bool is_like(const py::array& given, const py::array& taken) {
  return given.dtype().equal(taken.dtype()) && given.ndim() == taken.ndim() &&
         std::equal(given.shape(), given.shape() + given.ndim(), taken.shape());
}

// False where what is given for a value may share memory with an array that the launch writes.
bool is_apart_from(const Leaf& leaf, const py::array& taken, const LayoutKey& call, const py::list& arrays,
                   const std::vector<int64_t>& written) {
  if (taken.ndim() == 0) return true;
  if (!is_c_contiguous(leaf.given)) return false;
  const uint64_t low = address_of(leaf.data), high = low + static_cast<uint64_t>(taken.nbytes());
  return std::all_of(written.begin(), written.end(), [&](int64_t k) {
    const auto other = py::reinterpret_borrow<py::array>(arrays[static_cast<size_t>(k)]);
    if (!is_c_contiguous(other.ptr())) return false;
    const uint64_t first = address_of(call[static_cast<size_t>(k)].data);
    return high <= first || first + static_cast<uint64_t>(other.nbytes()) <= low;
  });
}

}  // namespace

bool HostExecutable::learn(const py::object& launch, const py::list& values, const py::list& arrays,
                           const std::vector<int64_t>& written, const py::object& results, const py::object& names) {
  LayoutKey call;
  if (!call.read_leaves(values.ptr()) || call.size() != values.size() || call.size() != arrays.size()) return false;
  if (call.size() > kMostDirect) return false;
  std::vector<Operand> operands;
  bool is_direct = true;
  for (size_t k = 0; k < call.size(); ++k) {
    const auto array = py::reinterpret_borrow<py::array>(arrays[k]);
    const Leaf& leaf = call[k];
    const int64_t dtype = dtype_code(array.dtype());
    const bool writes = std::find(written.begin(), written.end(), static_cast<int64_t>(k)) != written.end();
    uint64_t number[2];
    switch (leaf.part) {
      case Part::kArray:
        if (array.data() != leaf.data) return false;  // a copy
        break;
      case Part::kNumpy:
        if (!is_like(py::reinterpret_borrow<py::array>(leaf.given), array)) return false;
        // A copy of a vector or matrix that is a value: the key says that others in its place are apart, too.
        if (array.data() != leaf.data && (writes || !is_apart_from(leaf, array, call, arrays, written))) return false;
        is_direct = is_direct && is_c_contiguous(leaf.given);
        break;
      case Part::kJax:
        if (writes || array.ndim() == 0 || !is_like(as_numpy(leaf.given), array)) return false;
        break;
      case Part::kComposite:
        if (writes || !is_like(py::reinterpret_borrow<py::array>(leaf.given), array)) return false;
        is_direct = is_direct && is_c_contiguous(leaf.given);
        break;
      case Part::kFloat:
      case Part::kInt:
      case Part::kBool:
        if (writes || array.ndim() != 0 || !convert(leaf, dtype, number)) return false;
        break;
      case Part::kNumber:
        if (writes || array.ndim() != 0 || !convert_numpy(leaf.given, dtype, array.dtype(), number)) return false;
        break;
      case Part::kNone:
        break;
      default:
        return false;
    }
    is_direct = is_direct && is_c_contiguous(array.ptr());
    operands.push_back({dtype, std::vector<int64_t>(array.shape(), array.shape() + array.ndim()), item_size(dtype), writes,
                        leaf.part == Part::kNone ? array : py::array(), array.dtype()});
  }
  operands_ = std::move(operands);
  is_direct_ = is_direct;
  gives_results_ = !results.is_none();
  results_ = gives_results_ ? results.cast<std::vector<int64_t>>() : std::vector<int64_t>();
  names_ = names;
  launch_ = launch;
  return true;
}

py::object HostExecutable::results(const LayoutKey& call) const {
  if (!gives_results_) return py::none();
  if (!names_.is_none()) {
    py::dict made;
    for (size_t k = 0; k < results_.size(); ++k) made[py::tuple(names_)[k]] = py::handle(call[results_[k]].given);
    return std::move(made);
  }
  py::tuple made(results_.size());
  for (size_t k = 0; k < results_.size(); ++k) {
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(k), Py_NewRef(call[results_[k]].given));
  }
  return std::move(made);
}

py::array HostExecutable::array_for(const Leaf& leaf, const Operand& operand) const {
  switch (leaf.part) {
    case Part::kArray: {
      PyObject* found = PyObject_CallMethodNoArgs(leaf.given, host_name);
      if (found == nullptr) throw py::error_already_set();
      return py::reinterpret_steal<py::array>(found);
    }
    case Part::kNone:
      return operand.fixed;
    case Part::kJax:
      return as_numpy(leaf.given);
    case Part::kFloat:
    case Part::kInt:
    case Part::kBool:
    case Part::kNumber: {
      py::array made(operand.type, std::vector<py::ssize_t>());
      const bool is_made = leaf.part == Part::kNumber ? convert_numpy(leaf.given, operand.dtype, operand.type, made.mutable_data())
                                                       : convert(leaf, operand.dtype, made.mutable_data());
      return is_made ? made : py::array();
    }
    default:
      return py::reinterpret_borrow<py::array>(leaf.given);
  }
}

// Memory of JAX may be memory that the launch writes to.
bool HostExecutable::is_apart(const LayoutKey& call, size_t k, const py::array& array) const {
  const uint64_t low = address_of(array.data()), high = low + static_cast<uint64_t>(array.nbytes());
  for (size_t j = 0; j < operands_.size(); ++j) {
    if (j == k || !operands_[j].is_written) continue;
    if (call[j].part == Part::kNone) continue;
    if (!is_direct_) return false;
    uint64_t bytes = static_cast<uint64_t>(operands_[j].item_bytes);
    for (const int64_t extent : operands_[j].shape) bytes *= static_cast<uint64_t>(extent);
    const uint64_t first = address_of(call[j].data);
    if (low < first + bytes && first < high) return false;
  }
  return true;
}

bool HostExecutable::can_run(const LayoutKey& call) const {
  return launch_ && call.size() == operands_.size() && is_not_tracing();
}

py::object HostExecutable::run(const LayoutKey& call) const {
  if (!can_run(call)) return not_implemented();
  uint64_t numbers[kMostDirect];
  XLA_FFI_Buffer buffers[kMostDirect];
  std::vector<py::array> kept;  // of JAX
  bool is_direct = is_direct_;
  const size_t count = operands_.size();
  for (size_t k = 0; k < count; ++k) {
    const Operand& operand = operands_[k];
    const Leaf& leaf = call[k];
    void* data = leaf.data;
    if (is_number(leaf)) {
      if (!convert(leaf, operand.dtype, data = &numbers[k])) return not_implemented();
    } else if (leaf.part == Part::kNumber) {
      if (!convert_numpy(leaf.given, operand.dtype, operand.type, data = &numbers[k])) return not_implemented();
    } else if (leaf.part == Part::kNone) {
      data = const_cast<void*>(operand.fixed.data());
    } else if (leaf.part == Part::kJax) {
      kept.push_back(as_numpy(leaf.given));
      if (!is_apart(call, k, kept.back())) return not_implemented();
      data = const_cast<void*>(kept.back().data());
      is_direct = is_direct && is_c_contiguous(kept.back().ptr());
    }
    is_direct = is_direct && address_of(data) % operand.item_bytes == 0;
    buffers[k] = {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(operand.dtype), data,
                  static_cast<int64_t>(operand.shape.size()), const_cast<int64_t*>(operand.shape.data())};
  }
  for (size_t k = 0; k < count; ++k) {
    const Leaf& leaf = call[k];
    if (!operands_[k].is_written || leaf.memory == nullptr) continue;
    if (!(fields_of(leaf.buffer).flags & py::detail::npy_api::constants::NPY_ARRAY_WRITEABLE_)) return not_implemented();
  }
  py::list arrays(is_direct ? 0 : count);
  if (!is_direct) {
    for (size_t k = 0; k < count; ++k) arrays[k] = array_for(call[k], operands_[k]);
  }
  for (size_t k = 0; k < count; ++k) {
    const Leaf& leaf = call[k];
    if (!operands_[k].is_written || leaf.memory == nullptr) continue;
    PyObject* is_watched = PyObject_GetAttr(leaf.memory, is_watched_name);
    if (is_watched == nullptr) throw py::error_already_set();
    Py_DECREF(is_watched);
    if (is_watched != Py_False) {
      PyObject* made = PyObject_CallMethodNoArgs(leaf.memory, will_write_name);
      if (made == nullptr) throw py::error_already_set();
      Py_DECREF(made);
    }
  }
  auto& launch = launch_.cast<HostLaunch&>();
  is_direct ? launch.run_on(buffers) : launch.run(arrays);
  return results(call);
}

namespace {

PyTypeObject* executable_type;

// repeat(recent, table, owner, dim, block_dim, inputs, outputs, gradients, tell)
PyObject* repeat(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 9 || !PyDict_CheckExact(given[0])) {
    PyErr_SetString(PyExc_TypeError, "jwarp: repeat takes a dictionary and 8 more arguments");
    return nullptr;
  }
  return raw_call([&]() -> PyObject* {
    LayoutKey call;
    const auto missed = [&] { return call.slot(given[1]).release().ptr(); };
    if (!call.read(given[2], given[3], given[4], given[5], given[6], given[7])) return missed();
    const py::object found = py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(given[0], call.bytes().ptr()));
    if (!found) return PyErr_Occurred() ? nullptr : missed();
    PyObject* tell = given[8];
    if (!PyObject_TypeCheck(found.ptr(), executable_type)) {
      const py::list values = call.values();
      if (tell != Py_None && call.has_device_arrays()) return missed();
      PyObject* made = PyObject_CallMethodOneArg(found.ptr(), call_name, values.ptr());
      if (made == Py_None) return Py_DECREF(made), missed();
      if (made == Py_True) return Py_DECREF(made), Py_NewRef(Py_None);
      return made;
    }
    const auto& executable = found.cast<const HostExecutable&>();
    if (tell == Py_None || executable.gives_results()) {
      py::object results = executable.run(call);
      return results.ptr() == Py_NotImplemented ? missed() : results.release().ptr();
    }
    if (!is_not_tracing()) return missed();
    const auto hooks = py::reinterpret_borrow<py::tuple>(tell);
    const py::object told = hooks[0](found, call.values(), py::handle(given[5]), py::handle(given[6]));
    if (told.is_none()) return Py_NewRef(Py_None);
    if (executable.run(call).ptr() == Py_NotImplemented) told.attr("run")();
    hooks[1](told);
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"repeat", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(repeat)), METH_FASTCALL,
     "Repeats a call if its table has an executable for it: what comes back. Else it is its slot, and nothing has run."},
    {nullptr, nullptr, 0, nullptr}};

PyObject* intern(const char* name) {
  PyObject* made = PyUnicode_InternFromString(name);
  if (made == nullptr) throw py::error_already_set();
  return made;
}

}  // namespace

void add_executables(py::module_& module) {
  host_name = intern("host"), is_watched_name = intern("is_watched"), will_write_name = intern("will_write");
  call_name = intern("call");
  const auto type =
      py::class_<HostExecutable>(module, "HostExecutable", "A launch in host memory, for all calls of one layout.")
          .def(py::init<>())
          .def_property_readonly("is_ready", &HostExecutable::is_ready, "True if it has a launch.")
          .def("learn", &HostExecutable::learn, py::arg("launch"), py::arg("values"), py::arg("arrays"), py::arg("written"),
               py::arg("results") = py::none(), py::arg("names") = py::none(),
               "Takes the HostLaunch that runs on such values; False if it cannot.")
          .def(
              "run",
              [](const HostExecutable& self, const py::object& values) {
                LayoutKey call;
                if (!self.is_ready() || !call.read_leaves(values.ptr())) return not_implemented();
                return self.run(call);
              },
              py::arg("values"), "Runs it on the leaves of a call; NotImplemented if the slow path is needed.");
  executable_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  if (PyModule_AddFunctions(module.ptr(), functions) != 0) throw py::error_already_set();
}

}  // namespace jwarp
