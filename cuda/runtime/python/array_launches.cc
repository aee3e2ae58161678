// Reading the values of a call, and running the launch that was kept for such.
#include "python/array_launches.h"

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

// More launches than this of one kernel, and all are forgotten.
constexpr size_t kMostLaunches = 256;
// Calls with more values than this take the long way.
constexpr size_t kMostLeaves = 96;
constexpr size_t kMostMemories = 32;
// Numbers within it convert to float32 without becoming infinite.
constexpr double kLarge = 3e38;

// What a value is, as a part of a key. What follows tells it apart from others of its kind.
enum Part : uint64_t { kArray = 1, kFloat, kInt, kBool, kNone, kComposite, kStruct, kHeld, kShared };

// Names of attributes.
struct Names {
  PyObject *layout, *memory, *kind, *offset, *is_exposed, *is_watched, *start, *buffer, *will_write, *value, *settings,
      *changes, *owner, *state, *held, *leaves, *fields;
};

struct Classes {
  PyTypeObject *array, *memory, *composite, *structure, *id, *geometry;
  PyObject *read_held, *config, *options, *trace, *axes, *no_trace, *no_axes;
  Names names;
};

// Set once, when the package is imported, and never freed.
Classes* known = nullptr;

PyObject* intern(const char* name) {
  PyObject* made = PyUnicode_InternFromString(name);
  if (made == nullptr) throw py::error_already_set();
  return made;
}

// An owned reference.
using Owned = py::object;

Owned attribute(PyObject* of, PyObject* name) {
  PyObject* found = PyObject_GetAttr(of, name);
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<Owned>(found);
}

bool is_not_tracing() {
  return attribute(known->trace, known->names.value).ptr() == known->no_trace &&
         attribute(known->axes, known->names.value).ptr() == known->no_axes;
}

uint64_t number_of(PyObject* integer) {
  const long long found = PyLong_AsLongLong(integer);
  if (found == -1 && PyErr_Occurred()) throw py::error_already_set();
  return static_cast<uint64_t>(found);
}

uint64_t address_of(const void* thing) { return reinterpret_cast<uint64_t>(thing); }

const py::detail::PyArray_Proxy& fields(PyObject* array) { return *py::detail::array_proxy(array); }

}  // namespace

class GivenValues {
 public:
  struct Leaf {
    Part part;
    void* data;       // of arrays and composites
    PyObject* value;  // the number; the memory of an array
    PyObject* given;  // the array; else the value
  };

  bool read_threads(PyObject* dim, PyObject* block_dim) {
    if (PyLong_CheckExact(dim)) {
      key_.push_back(1);
      if (!read_count(dim)) return false;
    } else if (PyTuple_CheckExact(dim) || PyList_CheckExact(dim)) {
      const Py_ssize_t count = PySequence_Fast_GET_SIZE(dim);
      key_.push_back(static_cast<uint64_t>(count) + 2);
      for (Py_ssize_t k = 0; k < count; ++k) {
        PyObject* extent = PySequence_Fast_GET_ITEM(dim, k);
        if (!PyLong_CheckExact(extent) || !read_count(extent)) return false;
      }
    } else {
      return false;
    }
    if (block_dim == Py_None) return key_.push_back(~uint64_t{0}), true;  // what is not positive is left out, too
    return PyLong_CheckExact(block_dim) && read_count(block_dim);
  }

  bool read_all(PyObject* values) {
    if (!PyList_CheckExact(values) && !PyTuple_CheckExact(values)) return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values); ++k) {
      const Owned value = py::reinterpret_borrow<Owned>(PySequence_Fast_GET_ITEM(values, k));
      if (!read(value)) return false;
    }
    return true;
  }

  const std::vector<uint64_t>& key() const { return key_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  const std::vector<Owned>& kinds() const { return kinds_; }  // whose addresses are in the key

  uint64_t hash() const {
    uint64_t found = 0x9e3779b97f4a7c15u;
    for (const uint64_t part : key_) found = (found ^ part) * 0xff51afd7ed558ccdu, found ^= found >> 32;
    return found;
  }

 private:
  bool read(const Owned& value) {
    PyTypeObject* type = Py_TYPE(value.ptr());
    if (leaves_.size() >= kMostLeaves) return false;
    if (type == known->array) return read_array(value);
    if (type == &PyFloat_Type) return add(kFloat, value);
    if (type == &PyLong_Type) return add(kInt, value);
    if (type == &PyBool_Type) return add(kBool, value);
    if (value.is_none()) return add(kNone, value);
    if (type == known->composite) return read_composite(value);
    if (type == known->id || PyType_IsSubtype(type, known->geometry)) return read_held(value);
    if (PyType_IsSubtype(type, known->structure)) return read_struct(value, type);
    return false;
  }

  bool add(Part part, const Owned& value) {
    key_.push_back(part);
    add_leaf(part, nullptr, value);
    return true;
  }

  // False for numbers of more than 64 bits, which Python has to refuse.
  bool read_count(PyObject* integer) {
    int overflow = 0;
    key_.push_back(static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(integer, &overflow)));
    return overflow == 0;
  }

  void add_leaf(Part part, void* data, const Owned& value, PyObject* given = nullptr) {
    leaves_.push_back({part, data, value.ptr(), given == nullptr ? value.ptr() : given});
    keep_.push_back(value);
  }

  void add_kind(Part part, const Owned& kind) {
    key_.push_back(part);
    key_.push_back(address_of(kind.ptr()));
    kinds_.push_back(kind);
  }

  bool read_array(const Owned& value) {
    const Names& names = known->names;
    PyObject* found = PyObject_GetAttr(value.ptr(), names.memory);
    if (found == nullptr) {  // an annotation
      PyErr_Clear();
      return false;
    }
    const Owned memory = py::reinterpret_steal<Owned>(found);
    if (Py_TYPE(memory.ptr()) != known->memory) return false;
    if (attribute(memory.ptr(), names.is_exposed).ptr() != Py_False) return false;
    const Owned layout = attribute(value.ptr(), names.layout);
    const uint64_t first = number_of(attribute(memory.ptr(), names.start).ptr()) +
                           number_of(attribute(layout.ptr(), names.offset).ptr());
    key_.push_back(kArray);
    key_.push_back(number_of(attribute(layout.ptr(), names.kind).ptr()));
    // How arrays lie in memory that they share decides what a launch may do.
    for (size_t k = 0; k < shown_.size(); ++k) {
      if (shown_[k].first != memory.ptr()) continue;
      key_.push_back(kShared);
      key_.push_back(k);
      key_.push_back(first - shown_[k].second);
    }
    if (shown_.size() >= kMostMemories) return false;
    shown_.emplace_back(memory.ptr(), first);
    keep_.push_back(attribute(memory.ptr(), names.buffer));
    keep_.push_back(value);  // which a list of values may lose meanwhile
    add_leaf(kArray, reinterpret_cast<void*>(first), memory, value.ptr());
    return true;
  }

  bool read_composite(const Owned& value) {
    add_kind(kComposite, attribute(value.ptr(), known->names.kind));
    return read_elements(fields(value.ptr()), value, kComposite);
  }

  // An array of NumPy's of which only the content differs from one call to another.
  bool read_elements(const py::detail::PyArray_Proxy& of, const Owned& value, Part part) {
    const auto& type = *py::detail::array_descriptor_proxy(of.descr);
    if (type.byteorder != '=' && type.byteorder != '|') return false;
    key_.push_back(static_cast<uint64_t>(type.type_num));
    key_.push_back(static_cast<uint64_t>(of.nd));
    for (int axis = 0; axis < of.nd; ++axis) {
      key_.push_back(static_cast<uint64_t>(of.dimensions[axis]));
      key_.push_back(static_cast<uint64_t>(of.strides[axis]));
    }
    add_leaf(part, of.data, value);
    return true;
  }

  bool read_held(const Owned& value) {
    const Names& names = known->names;
    const Owned owner = Py_TYPE(value.ptr()) == known->id ? attribute(value.ptr(), names.owner) : value;
    Owned held = attribute(owner.ptr(), names.held);
    const Owned state = attribute(owner.ptr(), names.state);
    if (held.is_none() || attribute(held.ptr(), names.state).ptr() != state.ptr()) {
      held = py::reinterpret_borrow<Owned>(known->read_held)(value);
      if (held.is_none()) return false;
    }
    add_kind(kHeld, attribute(held.ptr(), names.kind));
    const Owned leaves = attribute(held.ptr(), names.leaves);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(leaves.ptr()); ++k) {
      const Owned leaf = py::reinterpret_borrow<Owned>(PyTuple_GET_ITEM(leaves.ptr(), k));
      if (py::isinstance<py::array>(leaf)) {
        if (!read_elements(fields(leaf.ptr()), leaf, kHeld)) return false;
      } else if (!read(leaf)) {
        return false;
      }
    }
    keep_.push_back(held);
    return true;
  }

  bool read_struct(const Owned& value, PyTypeObject* type) {
    const auto kind = py::reinterpret_borrow<Owned>(reinterpret_cast<PyObject*>(type));
    add_kind(kStruct, kind);
    const Owned names = attribute(kind.ptr(), known->names.fields);
    if (!PyDict_Check(names.ptr())) return false;
    PyObject *name, *field;
    for (Py_ssize_t at = 0; PyDict_Next(names.ptr(), &at, &name, &field);) {
      if (!read(attribute(value.ptr(), name))) return false;
    }
    return true;
  }

  std::vector<uint64_t> key_;
  std::vector<Leaf> leaves_;
  std::vector<std::pair<PyObject*, uint64_t>> shown_;  // the memory of each array, and where it begins
  std::vector<Owned> kinds_, keep_;
};

// One launch, for any values of these kinds.
struct ArrayLaunches::Entry {
  // What is read for a leaf: its memory; or a number, made one of this type; or always the same array.
  struct Operand {
    XLA_FFI_Buffer buffer;
    std::vector<int64_t> shape;
    int64_t item_bytes;
    bool is_fixed;
    bool is_written;
  };

  std::vector<uint64_t> key;
  std::vector<Operand> operands;
  py::object launch;  // which is a HostLaunch
  py::object settings, tag;
  int64_t changes;
  std::vector<py::object> keep;  // whose addresses are in the key or in the buffers

  // Whether the elements of a value are those that a launch takes.
  static bool is_like(PyObject* value, const py::array& taken) {
    const auto given = py::reinterpret_borrow<py::array>(value);
    return given.dtype().equal(taken.dtype()) && given.ndim() == taken.ndim() &&
           std::equal(given.shape(), given.shape() + given.ndim(), taken.shape()) &&
           (given.flags() & py::array::c_style) != 0;
  }

  static bool is_number(const GivenValues::Leaf& leaf) {
    return leaf.part == kFloat || leaf.part == kInt || leaf.part == kBool;
  }

  // The bytes of a number; false where Python has to look.
  static bool convert(const GivenValues::Leaf& leaf, int64_t dtype, void* into) {
    if (leaf.part == kBool) {
      const uint8_t made = leaf.value == Py_True;
      if (dtype != XLA_FFI_DataType_PRED) return false;
      std::memcpy(into, &made, 1);
      return true;
    }
    if (dtype == XLA_FFI_DataType_F32 || dtype == XLA_FFI_DataType_F64) {
      const double made = leaf.part == kFloat ? PyFloat_AS_DOUBLE(leaf.value) : PyLong_AsDouble(leaf.value);
      if (made == -1.0 && PyErr_Occurred()) return PyErr_Clear(), false;
      if (!(-kLarge < made && made < kLarge)) return false;
      const float small = static_cast<float>(made);
      if (dtype == XLA_FFI_DataType_F32) {
        std::memcpy(into, &small, 4);
      } else {
        std::memcpy(into, &made, 8);
      }
      return true;
    }
    if (leaf.part != kInt) return false;
    if (dtype == XLA_FFI_DataType_U64) {
      const uint64_t made = PyLong_AsUnsignedLongLong(leaf.value);
      if (PyErr_Occurred()) return PyErr_Clear(), false;
      std::memcpy(into, &made, 8);
      return true;
    }
    int overflow = 0;
    const int64_t made = PyLong_AsLongLongAndOverflow(leaf.value, &overflow);
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

  template <typename T>
  static bool store(int64_t number, void* into) {
    const T made = static_cast<T>(number);
    std::memcpy(into, &made, sizeof(T));
    return static_cast<int64_t>(made) == number;
  }
};

ArrayLaunches::~ArrayLaunches() = default;

py::object ArrayLaunches::run(PyObject* dim, PyObject* block_dim, PyObject* inputs, PyObject* outputs, PyObject* tell) {
  const py::object no = py::bool_(false);
  if (entries_.empty() || !is_not_tracing()) return no;
  GivenValues given;
  if (!given.read_threads(dim, block_dim) || !given.read_all(inputs)) return no;
  if (outputs != Py_None && !given.read_all(outputs)) return no;
  const auto at = entries_.find(given.hash());
  if (at == entries_.end() || at->second->key != given.key()) return no;
  const std::shared_ptr<Entry> entry = at->second;  // which another thread may forget meanwhile
  if (attribute(known->config, known->names.settings).ptr() != entry->settings.ptr() ||
      static_cast<int64_t>(number_of(attribute(known->options, known->names.changes).ptr())) != entry->changes) {
    return no;
  }
  const auto& leaves = given.leaves();
  uint64_t numbers[kMostLeaves];
  XLA_FFI_Buffer buffers[kMostLeaves];
  for (size_t k = 0; k < leaves.size(); ++k) {
    const Entry::Operand& operand = entry->operands[k];
    buffers[k] = operand.buffer;
    if (operand.is_fixed) continue;
    if (Entry::is_number(leaves[k])) {
      if (!Entry::convert(leaves[k], operand.buffer.dtype, &numbers[k])) return no;
      buffers[k].data = &numbers[k];
    } else {
      if (address_of(leaves[k].data) % operand.item_bytes != 0) return no;
      buffers[k].data = leaves[k].data;
    }
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!entry->operands[k].is_written || leaves[k].part != kArray) continue;
    const Owned buffer = attribute(leaves[k].value, known->names.buffer);
    if (!(fields(buffer.ptr()).flags & py::detail::npy_api::constants::NPY_ARRAY_WRITEABLE_)) return no;
  }
  py::object told = py::bool_(true);
  if (tell != Py_None) {
    const Owned tag = entry->tag();  // of a weak reference
    if (tag.is_none()) return no;
    py::list values(leaves.size());
    for (size_t k = 0; k < leaves.size(); ++k) values[k] = py::handle(leaves[k].given);
    told = py::handle(tell)(tag, values, py::handle(inputs), py::handle(outputs));
    if (told.is_none()) return py::bool_(true);
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!entry->operands[k].is_written || leaves[k].part != kArray) continue;
    if (attribute(leaves[k].value, known->names.is_watched).ptr() != Py_False) {
      attribute(leaves[k].value, known->names.will_write)();
    }
  }
  entry->launch.cast<HostLaunch&>().run_on(buffers);
  return told;
}

void ArrayLaunches::add(const py::object& dim, const py::object& block_dim, const py::object& inputs,
                        const py::object& outputs, const py::object& launch, const py::list& arrays,
                        const std::vector<int64_t>& written, const py::object& settings, int64_t changes,
                        const py::object& tag) {
  GivenValues given;
  if (!given.read_threads(dim.ptr(), block_dim.ptr()) || !given.read_all(inputs.ptr())) return;
  if (!outputs.is_none() && !given.read_all(outputs.ptr())) return;
  const auto& leaves = given.leaves();
  if (leaves.size() != arrays.size()) return;
  auto entry = std::make_shared<Entry>();
  for (size_t k = 0; k < leaves.size(); ++k) {
    const auto array = py::reinterpret_borrow<py::array>(arrays[k]);
    const GivenValues::Leaf& leaf = leaves[k];
    const bool is_number = Entry::is_number(leaf);
    if (leaf.part == kArray && array.data() != leaf.data) return;  // a copy
    if ((leaf.part == kComposite || leaf.part == kHeld) && !Entry::is_like(leaf.value, array)) return;
    if ((is_number && array.ndim() != 0) || !(array.flags() & py::array::c_style)) return;
    std::vector<int64_t> shape(array.shape(), array.shape() + array.ndim());
    const int64_t dtype = dtype_code(array.dtype());
    uint64_t number;
    if (is_number && !Entry::convert(leaf, dtype, &number)) return;
    const bool writes = std::find(written.begin(), written.end(), static_cast<int64_t>(k)) != written.end();
    entry->operands.push_back({{XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(dtype),
                                const_cast<void*>(array.data()), static_cast<int64_t>(shape.size()), nullptr},
                               std::move(shape),
                               item_size(dtype),
                               leaf.part == kNone,
                               writes});
    if (leaf.part == kNone) entry->keep.push_back(array);
  }
  for (Entry::Operand& operand : entry->operands) operand.buffer.dims = operand.shape.data();
  entry->keep.insert(entry->keep.end(), given.kinds().begin(), given.kinds().end());
  entry->key = given.key();
  entry->launch = launch;
  entry->settings = settings;
  entry->changes = changes;
  entry->tag = py::weakref(tag);
  if (entries_.size() >= kMostLaunches) entries_.clear();
  entries_[given.hash()] = std::move(entry);
}

namespace {

// run(launches, dim, block_dim, inputs, outputs, tell)
PyObject* run_array_launch(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 6) {
    PyErr_SetString(PyExc_TypeError, "jwarp: run_array_launch takes 6 arguments");
    return nullptr;
  }
  return raw_call([&] {
    auto* launches = py::handle(arguments[0]).cast<ArrayLaunches*>();
    return launches->run(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]).release().ptr();
  });
}

PyMethodDef functions[] = {
    {"run_array_launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_array_launch)),
     METH_FASTCALL, "Repeats a launch of these values if one such was added: whether it has run, or what `tell` gave."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void set_array_classes(const py::dict& given) {
  auto made = std::make_unique<Classes>();
  const auto object = [&given](const char* name) { return py::object(given[name]).release().ptr(); };
  const auto type = [&object](const char* name) { return reinterpret_cast<PyTypeObject*>(object(name)); };
  made->array = type("array");
  made->memory = type("memory");
  made->composite = type("composite");
  made->structure = type("struct");
  made->id = type("id");
  made->geometry = type("geometry");
  made->read_held = object("held");
  made->config = object("config");
  made->options = object("options");
  made->trace = object("trace");
  made->axes = object("axes");
  made->no_trace = object("no_trace");
  made->no_axes = object("no_axes");
  made->names = {intern("layout"), intern("memory"),     intern("kind"),   intern("offset"),   intern("is_exposed"),
                 intern("is_watched"), intern("start"), intern("buffer"), intern("will_write"), intern("value"),
                 intern("settings"), intern("changes"), intern("owner"),  intern("state"),    intern("held"),
                 intern("leaves"), intern("fields")};
  known = made.release();
}

void add_array_launches(py::module_& module) {
  py::class_<ArrayLaunches>(module, "ArrayLaunches", "Launches of one kernel on arrays that change, to be repeated.")
      .def(py::init<>())
      .def("add", &ArrayLaunches::add, py::arg("dim"), py::arg("block_dim"), py::arg("inputs"), py::arg("outputs"),
           py::arg("launch"), py::arg("arrays"), py::arg("written"), py::arg("settings"), py::arg("changes"), py::arg("tag"),
           "Adds the launch of a call, a HostLaunch, if such calls may be repeated here.");
  module.def("set_array_classes", &set_array_classes, py::arg("classes"),
             "Says what arrays that change and their kin look like.");
  if (PyModule_AddFunctions(module.ptr(), functions) != 0) throw py::error_already_set();
}

}  // namespace jwarp
