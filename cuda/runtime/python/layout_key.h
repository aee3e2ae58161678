// The layout key of a call: what must be alike for it to be repeated. `jwarp/dispatch/executables/table.py` says what is in it.
#pragma once

#include <Python.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>

namespace jwarp {

// What a value is, as a part of a key. What follows tells it apart from others of its kind.
enum class Part : uint8_t {
  kArray = 1, kDevice, kNumpy, kJax, kFloat, kInt, kBool, kNumber, kNone, kComposite, kStruct, kStructArray, kIndexed,
  kCached, kShape, kUnwanted, kWanted, kShared, kValues
};

const pybind11::detail::PyArray_Proxy& fields_of(PyObject* array);
bool is_c_contiguous(PyObject* array);

// A value of a call, structs taken apart. References are borrowed from the call that was read.
struct Leaf {
  Part part;
  void* data;        // where the elements of an array or a composite begin
  PyObject* given;   // the value itself
  PyObject* memory;  // of an array that changes
  PyObject* buffer;  // of one in this computer's memory
};

// A call, read once: its key and its leaves. A call that cannot be repeated has no key.
class LayoutKey {
 public:
  LayoutKey() = default;
  ~LayoutKey();
  LayoutKey(const LayoutKey&) = delete;
  LayoutKey& operator=(const LayoutKey&) = delete;

  // `owner` tells calls apart that are otherwise alike, by its identity. `gradients` are None, or the adj_inputs and
  // adj_outputs of an adjoint. False where a closer look is needed. Throws pybind11::error_already_set.
  bool read(PyObject* owner, PyObject* dim, PyObject* block_dim, PyObject* inputs, PyObject* outputs,
            PyObject* gradients);

  // Leaves alone, without a key that anyone asks for.
  bool read_leaves(PyObject* values);

  pybind11::bytes bytes() const;
  pybind11::list values() const;
  pybind11::tuple kinds() const;  // the objects whose addresses are in the key
  pybind11::object slot(PyObject* table) const;  // the place of the call in a table, for callers in Python

  bool has_device_arrays() const { return has_device_arrays_; }
  size_t size() const { return leaf_count_; }
  const Leaf& operator[](size_t k) const { return leaves_[k]; }

 private:
  enum class Place { kInput, kOutput, kCotangent, kGradient };
  struct Shown {
    PyObject* memory;  // nullptr for what is in no memory of arrays that change
    PyObject* layout;
    uint64_t start, first, low, high;
    bool has_span, is_foreign;
  };

  static constexpr size_t kMostWords = 1024, kMostLeaves = 160, kMostKept = 640, kMostKinds = 160;

  bool word(uint64_t value);
  bool part(Part part, uint64_t more = 0) { return word(static_cast<uint64_t>(part) | more << 8); }
  bool kind(Part part, PyObject* object);
  bool leaf(Part part, PyObject* given, void* data = nullptr, PyObject* memory = nullptr, PyObject* buffer = nullptr);
  PyObject* keep(PyObject* owned);  // steals the reference, which lives as long as the key
  PyObject* attribute(PyObject* of, PyObject* name);

  bool read_settings();
  bool read_count(PyObject* integer);
  bool read_threads(PyObject* dim, PyObject* block_dim);
  bool read_values(PyObject* values, Place place);
  bool read_value(PyObject* value, Place place);
  bool read_shape(PyObject* extents);
  bool read_array(PyObject* value);
  bool read_numpy(PyObject* value, Part part, bool is_shared);
  bool read_jax(PyObject* value);
  bool read_composite(PyObject* value);
  bool read_cached(PyObject* value);
  bool read_struct(PyObject* value, PyTypeObject* type);
  bool read_struct_array(PyObject* value);
  bool read_indexed(PyObject* value);
  bool read_number(PyObject* value);
  bool show(const Shown& shown);

  std::array<uint64_t, kMostWords> words_;
  std::array<Leaf, kMostLeaves> leaves_;
  std::array<Shown, kMostLeaves> shown_;
  std::array<PyObject*, kMostKept> kept_;
  std::array<PyObject*, kMostKinds> kinds_;
  size_t word_count_ = 0, leaf_count_ = 0, shown_count_ = 0, kept_count_ = 0, kind_count_ = 0;
  bool has_key_ = false, has_arrays_ = false, has_device_arrays_ = false;
};

// Whether no transformation of JAX is at work.
bool is_not_tracing();

// Numbers within it convert to float32 without becoming infinite.
constexpr double kLarge = 3e38;

// Adds to the module what reads calls, and what says how values look: classes and objects of the package, by name.
void add_layout_key(pybind11::module_& module);

// The array of NumPy's that a JAX array is.
pybind11::array as_numpy(PyObject* value);

}  // namespace jwarp
