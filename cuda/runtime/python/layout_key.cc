// Reading what a call is given, once: its key and its leaves.
#include "python/layout_key.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "python/raw_call.h"

namespace py = pybind11;

namespace jwarp {
namespace {

using Flags = py::detail::npy_api::constants;

// Types of NumPy's without a fixed size or with a unit: object, string, unicode, void, datetime and timedelta.
constexpr int kFirstOther = 17, kLastOther = 22;

// Names of attributes.
struct Names {
  PyObject *layout, *memory, *kind, *offset, *bounds, *is_exposed, *is_untyped, *start, *buffer, *device, *ordinal, *value,
      *settings, *changes, *owner, *state, *cached, *leaves, *fields, *dtype, *data, *indices, *aval, *shape, *weak_type,
      *enable_x64, *is_read_only;
};

struct Classes {
  PyTypeObject *array, *struct_array, *indexed, *memory, *device_memory, *numpy, *jax, *composite, *structure, *id,
      *geometry;
  PyObject *slot, *no_slot, *read_cached, *as_numpy, *config, *options, *jax_config, *trace, *axes, *no_trace, *no_axes;
  std::vector<std::pair<PyTypeObject*, int>> numbers;  // the types of NumPy's numbers
  Names names;
};

// A call has more values than fit; it takes the long way each time.
struct TooMany {};

// Set once, when the package is imported, and never freed.
Classes* known = nullptr;

PyObject* intern(const char* name) {
  PyObject* made = PyUnicode_InternFromString(name);
  if (made == nullptr) throw py::error_already_set();
  return made;
}

uint64_t number_of(PyObject* integer) {
  const long long found = PyLong_AsLongLong(integer);
  if (found == -1 && PyErr_Occurred()) throw py::error_already_set();
  return static_cast<uint64_t>(found);
}

uint64_t address_of(const void* thing) { return reinterpret_cast<uint64_t>(thing); }

// Whether an attribute of an object that outlives this is just that object.
bool holds(PyObject* of, PyObject* name, PyObject* expected) {
  PyObject* found = PyObject_GetAttr(of, name);
  if (found == nullptr) throw py::error_already_set();
  Py_DECREF(found);
  return found == expected;
}

}  // namespace

const py::detail::PyArray_Proxy& fields_of(PyObject* array) { return *py::detail::array_proxy(array); }

bool is_c_contiguous(PyObject* array) { return (fields_of(array).flags & Flags::NPY_ARRAY_C_CONTIGUOUS_) != 0; }

bool is_not_tracing() {
  return holds(known->trace, known->names.value, known->no_trace) && holds(known->axes, known->names.value, known->no_axes);
}

py::array as_numpy(PyObject* value) {
  PyObject* made = PyObject_CallOneArg(known->as_numpy, value);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::array>(made);
}

LayoutKey::~LayoutKey() {
  for (size_t k = 0; k < kept_count_; ++k) Py_DECREF(kept_[k]);
}

bool LayoutKey::word(uint64_t value) {
  if (word_count_ == kMostWords) return false;
  words_[word_count_++] = value;
  return true;
}

bool LayoutKey::kind(Part part_of, PyObject* object) {
  if (kind_count_ == kMostKinds) return false;
  kinds_[kind_count_++] = object;
  return part(part_of) && word(address_of(object));
}

bool LayoutKey::leaf(Part part_of, PyObject* given, void* data, PyObject* memory, PyObject* buffer) {
  if (leaf_count_ == kMostLeaves) return false;
  leaves_[leaf_count_++] = {part_of, data, given, memory, buffer};
  return true;
}

PyObject* LayoutKey::keep(PyObject* owned) {
  if (owned == nullptr) throw py::error_already_set();
  if (kept_count_ == kMostKept) {
    Py_DECREF(owned);
    throw TooMany();
  }
  return kept_[kept_count_++] = owned;
}

PyObject* LayoutKey::attribute(PyObject* of, PyObject* name) { return keep(PyObject_GetAttr(of, name)); }

bool LayoutKey::read(PyObject* owner, PyObject* dim, PyObject* block_dim, PyObject* inputs, PyObject* outputs,
                     PyObject* gradients) try {
  if (!kind(Part::kValues, owner) || !read_settings() || !read_threads(dim, block_dim)) return false;
  if (!read_values(inputs, Place::kInput)) return false;
  if (outputs == Py_None) {
    if (!word(0)) return false;
  } else if (!read_values(outputs, Place::kOutput)) {
    return false;
  }
  if (gradients != Py_None) {
    PyObject* wanted = PyTuple_GET_ITEM(gradients, 0);
    if (!read_values(PyTuple_GET_ITEM(gradients, 1), Place::kCotangent)) return false;
    if (wanted == Py_None ? !word(0) : !read_values(wanted, Place::kGradient)) return false;
  }
  if (has_arrays_) return has_key_ = true;  // which have all types, whatever JAX has
  PyObject* is_wide = attribute(known->jax_config, known->names.enable_x64);
  return has_key_ = word(is_wide == Py_True);
} catch (const TooMany&) {
  return false;
}

bool LayoutKey::read_leaves(PyObject* values) try {
  return read_values(values, Place::kInput);
} catch (const TooMany&) {
  return false;
}

bool LayoutKey::read_settings() {
  PyObject* settings = attribute(known->config, known->names.settings);
  return kind(Part::kValues, settings) && word(number_of(attribute(known->options, known->names.changes)));
}

// False for numbers of more than 64 bits, which Python has to refuse.
bool LayoutKey::read_count(PyObject* integer) {
  int overflow = 0;
  return word(static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(integer, &overflow))) && overflow == 0;
}

bool LayoutKey::read_threads(PyObject* dim, PyObject* block_dim) {
  if (dim == Py_None) {
    if (!word(0)) return false;
  } else if (PyLong_CheckExact(dim)) {
    if (!word(1) || !read_count(dim)) return false;
  } else if (!(PyTuple_CheckExact(dim) || PyList_CheckExact(dim)) || !read_shape(dim)) {
    return false;
  }
  if (block_dim == Py_None) return part(Part::kNone);
  return PyLong_CheckExact(block_dim) && part(Part::kInt) && read_count(block_dim);
}

// What is equal to an int is none: True, 1.0.
bool LayoutKey::read_shape(PyObject* extents) {
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(extents);
  if (!part(Part::kShape, static_cast<uint64_t>(count))) return false;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* extent = PySequence_Fast_GET_ITEM(extents, k);
    if (!PyLong_CheckExact(extent) || !read_count(extent)) return false;
  }
  return true;
}

bool LayoutKey::read_values(PyObject* values, Place place) {
  if (!PyList_CheckExact(values) && !PyTuple_CheckExact(values)) return false;
  if (!part(Part::kValues, static_cast<uint64_t>(PySequence_Fast_GET_SIZE(values)))) return false;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(values); ++k) {
    PyObject* value = PySequence_Fast_GET_ITEM(values, k);
    Py_INCREF(value);  // which a list may lose meanwhile
    if (!read_value(keep(value), place)) return false;
  }
  return true;
}

bool LayoutKey::read_value(PyObject* value, Place place) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == known->array) return read_array(value);
  if (type == known->numpy) return read_numpy(value, Part::kNumpy, true);
  if (type == known->jax) return read_jax(value);
  if (place == Place::kGradient) {
    if (value == Py_None || value == Py_False) return part(Part::kUnwanted, value == Py_None);
    return value == Py_True && part(Part::kWanted) && leaf(Part::kWanted, value);
  }
  if (value == Py_None) return part(Part::kNone) && leaf(Part::kNone, value);
  if (place == Place::kCotangent) return false;
  if (place == Place::kOutput) {  // numbers may be shapes
    if (type == &PyLong_Type) return part(Part::kInt, 1) && read_count(value) && leaf(Part::kInt, value);
    if (type == &PyTuple_Type) return read_shape(value) && leaf(Part::kShape, value);
  }
  if (type == &PyFloat_Type) return part(Part::kFloat) && leaf(Part::kFloat, value);
  if (type == &PyLong_Type) return part(Part::kInt) && leaf(Part::kInt, value);
  if (type == &PyBool_Type) return part(Part::kBool) && leaf(Part::kBool, value);
  if (PyType_IsSubtype(type, known->composite)) return read_composite(value);
  if (type == known->id || PyType_IsSubtype(type, known->geometry)) return read_cached(value);
  if (PyType_IsSubtype(type, known->structure)) return read_struct(value, type);
  if (type == known->struct_array) return read_struct_array(value);
  if (type == known->indexed) return read_indexed(value);
  return read_number(value);
}

// How arrays lie in memory decides what a launch may do: of each two whose bytes overlap, it is the distance.
bool LayoutKey::show(const Shown& given) {
  Shown mine = given;
  const auto has_span = [](Shown& of) {
    if (of.has_span) return;
    PyObject* bounds = PyObject_GetAttr(of.layout, known->names.bounds);
    if (bounds == nullptr) throw py::error_already_set();
    const auto owned = py::reinterpret_steal<py::tuple>(bounds);
    of.low = of.start + number_of(PyTuple_GET_ITEM(bounds, 0));
    of.high = of.start + number_of(PyTuple_GET_ITEM(bounds, 1));
    of.has_span = true;
  };
  for (size_t k = 0; k < shown_count_; ++k) {
    Shown& other = shown_[k];
    if (other.memory != mine.memory && !mine.is_foreign && !other.is_foreign) continue;
    has_span(mine);
    has_span(other);
    if (mine.low < other.high && other.low < mine.high) {
      if (!part(Part::kShared, k) || !word(mine.first - other.first)) return false;
    }
  }
  if (shown_count_ == kMostLeaves) return false;
  shown_[shown_count_++] = mine;
  return true;
}

bool LayoutKey::read_array(PyObject* value) {
  const Names& names = known->names;
  PyObject* found = PyObject_GetAttr(value, names.memory);
  if (found == nullptr) {  // an annotation
    PyErr_Clear();
    return false;
  }
  PyObject* memory = keep(found);
  const bool is_here = PyType_IsSubtype(Py_TYPE(memory), known->memory);
  if (!is_here && Py_TYPE(memory) != known->device_memory) return false;
  PyObject* layout = attribute(value, names.layout);
  const bool is_exposed = !holds(memory, names.is_exposed, Py_False);
  const uint64_t start = number_of(attribute(memory, names.start));
  const uint64_t first = start + number_of(attribute(layout, names.offset));
  has_arrays_ = true;
  has_device_arrays_ = has_device_arrays_ || !is_here;
  PyObject* buffer = nullptr;
  uint64_t more = 0;
  if (is_here) {
    buffer = attribute(memory, names.buffer);
    // What is in memory of others may be of no type of its own, and read-only.
    if (is_exposed) {
      more = 1 | (holds(value, names.is_untyped, Py_False) ? 0 : 2) |
             ((fields_of(buffer).flags & Flags::NPY_ARRAY_WRITEABLE_) ? 0 : 4);
    }
  } else {
    more = number_of(attribute(attribute(memory, names.device), names.ordinal)) << 3 |
           (holds(value, names.is_untyped, Py_False) ? 0 : 2) | (holds(memory, names.is_read_only, Py_False) ? 0 : 4);
  }
  const Part part_of = is_here ? Part::kArray : Part::kDevice;
  return part(part_of, more) && word(number_of(attribute(layout, names.kind))) &&
         show({memory, layout, start, first, 0, 0, false, is_exposed}) &&
         leaf(part_of, value, reinterpret_cast<void*>(first), memory, buffer);
}

// An array of NumPy's, of which only the content differs from one call to another.
bool LayoutKey::read_numpy(PyObject* value, Part part_of, bool is_shared) {
  const auto& of = fields_of(value);
  const auto& type = *py::detail::array_descriptor_proxy(of.descr);
  if (type.byteorder != '=' && type.byteorder != '|') return false;
  if (type.type_num >= kFirstOther && type.type_num <= kLastOther) return false;
  const uint64_t flags = (of.flags & Flags::NPY_ARRAY_WRITEABLE_ ? 1 : 0) | (of.flags & Flags::NPY_ARRAY_ALIGNED_ ? 2 : 0);
  if (!part(part_of, static_cast<uint64_t>(type.type_num) << 16 | flags << 8 | static_cast<uint64_t>(of.nd))) return false;
  const uint64_t first = address_of(of.data);
  uint64_t low = first, high = first + static_cast<uint64_t>(py::reinterpret_borrow<py::dtype>(of.descr).itemsize());
  bool is_empty = false;
  for (int axis = 0; axis < of.nd; ++axis) {
    const int64_t extent = of.dimensions[axis], stride = of.strides[axis];
    if (!word(static_cast<uint64_t>(extent)) || !word(static_cast<uint64_t>(stride))) return false;
    if (extent == 0) is_empty = true;
    if (extent > 1) (stride < 0 ? low : high) += static_cast<uint64_t>(stride * (extent - 1));
  }
  if (is_empty) low = high = first;
  return (part_of == Part::kComposite || show({nullptr, nullptr, 0, first, low, high, true, is_shared})) &&
         leaf(part_of, value, of.data);
}

bool LayoutKey::read_jax(PyObject* value) {
  const Names& names = known->names;
  PyObject* aval = attribute(value, names.aval);
  PyObject* dtype = attribute(aval, names.dtype);
  if (!py::isinstance<py::dtype>(dtype)) return false;  // of keys of random numbers
  const uint64_t type = static_cast<uint64_t>(py::detail::array_descriptor_proxy(dtype)->type_num);
  const uint64_t is_weak = attribute(aval, names.weak_type) == Py_True;
  PyObject* shape = attribute(aval, names.shape);
  return PyTuple_CheckExact(shape) && part(Part::kJax, type << 1 | is_weak) && read_shape(shape) && leaf(Part::kJax, value);
}

bool LayoutKey::read_composite(PyObject* value) {
  return kind(Part::kComposite, attribute(value, known->names.kind)) && read_numpy(value, Part::kComposite, false);
}

bool LayoutKey::read_cached(PyObject* value) {
  const Names& names = known->names;
  PyObject* owner = Py_TYPE(value) == known->id ? attribute(value, names.owner) : value;
  PyObject* cached = attribute(owner, names.cached);
  PyObject* state = attribute(owner, names.state);
  if (cached == Py_None || attribute(cached, names.state) != state) {
    cached = keep(PyObject_CallOneArg(known->read_cached, value));
    if (cached == Py_None) return false;
  }
  if (!kind(Part::kCached, attribute(cached, names.kind))) return false;
  PyObject* leaves = attribute(cached, names.leaves);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(leaves); ++k) {
    PyObject* one = PyTuple_GET_ITEM(leaves, k);
    if (py::isinstance<py::array>(one) ? !read_numpy(one, Part::kCached, false) : !read_value(one, Place::kInput)) return false;
  }
  return true;
}

bool LayoutKey::read_struct(PyObject* value, PyTypeObject* type) {
  PyObject* of = reinterpret_cast<PyObject*>(type);
  if (!kind(Part::kStruct, of)) return false;
  PyObject* names = attribute(of, known->names.fields);
  if (!PyDict_Check(names)) return false;
  PyObject *name, *field;
  for (Py_ssize_t at = 0; PyDict_Next(names, &at, &name, &field);) {
    if (!read_value(attribute(value, name), Place::kInput)) return false;
  }
  return true;
}

bool LayoutKey::read_struct_array(PyObject* value) {
  if (!kind(Part::kStructArray, attribute(value, known->names.dtype))) return false;
  const py::object leaves = py::handle(value).attr("leaves")();
  for (const py::handle one : py::iter(leaves)) {
    Py_INCREF(one.ptr());
    if (!read_value(keep(one.ptr()), Place::kInput)) return false;
  }
  return true;
}

bool LayoutKey::read_indexed(PyObject* value) {
  PyObject* indices = attribute(value, known->names.indices);
  if (!PyTuple_CheckExact(indices) || !part(Part::kIndexed, static_cast<uint64_t>(PyTuple_GET_SIZE(indices)))) return false;
  if (!read_value(attribute(value, known->names.data), Place::kInput)) return false;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(indices); ++k) {
    if (!read_value(PyTuple_GET_ITEM(indices, k), Place::kInput)) return false;
  }
  return true;
}

bool LayoutKey::read_number(PyObject* value) {
  for (const auto& [type, number] : known->numbers) {
    if (Py_TYPE(value) != type && Py_TYPE(value)->tp_base != type) continue;
    return part(Part::kNumber, static_cast<uint64_t>(number)) && leaf(Part::kNumber, value);
  }
  return false;
}

py::bytes LayoutKey::bytes() const {
  return py::bytes(reinterpret_cast<const char*>(words_.data()), word_count_ * sizeof(uint64_t));
}

py::list LayoutKey::values() const {
  py::list made(leaf_count_);
  for (size_t k = 0; k < leaf_count_; ++k) made[k] = py::handle(leaves_[k].given);
  return made;
}

py::object LayoutKey::slot(PyObject* table) const {
  if (!has_key_) return py::reinterpret_borrow<py::object>(known->no_slot);
  return py::handle(known->slot)(py::handle(table), bytes(), values(), kinds());
}

py::tuple LayoutKey::kinds() const {
  py::tuple made(kind_count_);
  for (size_t k = 0; k < kind_count_; ++k) made[k] = py::handle(kinds_[k]);
  return made;
}

namespace {

py::object read_call(const py::object& table, const py::object& owner, const py::object& dim, const py::object& block_dim, const py::object& inputs,
                     const py::object& outputs, const py::object& gradients) {
  LayoutKey key;
  key.read(owner.ptr(), dim.ptr(), block_dim.ptr(), inputs.ptr(), outputs.ptr(), gradients.ptr());
  return key.slot(table.ptr());
}

void set_call_classes(const py::dict& given) {
  auto made = std::make_unique<Classes>();
  const auto object = [&given](const char* name) { return py::object(given[name]).release().ptr(); };
  const auto type = [&object](const char* name) { return reinterpret_cast<PyTypeObject*>(object(name)); };
  made->array = type("array");
  made->struct_array = type("struct_array");
  made->indexed = type("indexed");
  made->memory = type("memory");
  made->device_memory = type("device_memory");
  made->numpy = type("numpy");
  made->jax = type("jax");
  made->composite = type("composite");
  made->structure = type("struct");
  made->id = type("id");
  made->geometry = type("geometry");
  made->slot = object("slot");
  made->no_slot = object("no_slot");
  made->read_cached = object("cached_content");
  made->as_numpy = object("as_numpy");
  made->config = object("config");
  made->options = object("options");
  made->jax_config = object("jax_config");
  made->trace = object("trace");
  made->axes = object("axes");
  made->no_trace = object("no_trace");
  made->no_axes = object("no_axes");
  for (const py::handle number : py::iter(given["numbers"])) {
    Py_INCREF(number.ptr());
    const int code = py::detail::array_descriptor_proxy(py::dtype::from_args(py::reinterpret_borrow<py::object>(number)).ptr())->type_num;
    made->numbers.emplace_back(reinterpret_cast<PyTypeObject*>(number.ptr()), code);
  }
  Names& n = made->names;
  for (const auto& [into, name] : std::initializer_list<std::pair<PyObject**, const char*>>{
           {&n.layout, "layout"}, {&n.memory, "memory"}, {&n.kind, "kind"}, {&n.offset, "offset"}, {&n.bounds, "bounds"},
           {&n.is_exposed, "is_exposed"}, {&n.is_untyped, "is_untyped"}, {&n.start, "start"}, {&n.buffer, "buffer"},
           {&n.device, "device"}, {&n.ordinal, "ordinal"}, {&n.value, "value"}, {&n.settings, "settings"},
           {&n.changes, "changes"}, {&n.owner, "owner"}, {&n.state, "state"}, {&n.cached, "cached"}, {&n.leaves, "leaves"},
           {&n.fields, "fields"}, {&n.dtype, "dtype"}, {&n.data, "data"}, {&n.indices, "indices"}, {&n.aval, "aval"},
           {&n.shape, "shape"}, {&n.weak_type, "weak_type"}, {&n.enable_x64, "value"}, {&n.is_read_only, "is_read_only"}}) {
    *into = intern(name);
  }
  known = made.release();
}

}  // namespace

void add_layout_key(py::module_& module) {
  module.def("read_call", &read_call, py::arg("table"), py::arg("owner"), py::arg("dim"), py::arg("block_dim"), py::arg("inputs"),
             py::arg("outputs"), py::arg("gradients"),
             "The slot of a call in a table of executables: its layout key, and its values with structs taken apart.");
  module.def("set_call_classes", &set_call_classes, py::arg("classes"), "Says what the values of calls look like.");
}

}  // namespace jwarp
