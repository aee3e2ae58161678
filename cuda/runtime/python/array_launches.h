// Launches on arrays that change which are repeated: from the values of a call to the launch without Python code.
#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "python/host_launch.h"
#include "xla/ffi/api/c_api.h"

namespace jwarp {

// What a call is given, taken apart: what has to be alike for a launch to be repeated, and what it works on.
class GivenValues;

// The launches of one kernel, each under what calls of it have in common: the threads, and the kinds of the values.
class ArrayLaunches {
 public:
  ArrayLaunches() = default;
  ~ArrayLaunches();
  ArrayLaunches(const ArrayLaunches&) = delete;
  ArrayLaunches& operator=(const ArrayLaunches&) = delete;

  // Runs what was added for such a call, and gives True; False where there is nothing or a closer look is needed, and
  // then nothing has run. Before it runs, `tell` is called, unless it is None: with the tag of the launch, a list of what
  // it is given, structs taken apart, and the inputs and outputs. What comes back is given in place of True; where that
  // is None, the launch has been run there. Throws pybind11::error_already_set for an error of Python's, and Fault.
  pybind11::object run(PyObject* dim, PyObject* block_dim, PyObject* inputs, PyObject* outputs, PyObject* tell);

  // Adds the launch of a call, if such may be repeated here. `arrays` are what it would be called with, and the `tag`, to
  // which there is a weak reference, says to others which launch it is.
  void add(const pybind11::object& dim, const pybind11::object& block_dim, const pybind11::object& inputs,
           const pybind11::object& outputs, const pybind11::object& launch, const pybind11::list& arrays,
           const std::vector<int64_t>& written, const pybind11::object& settings, int64_t changes,
           const pybind11::object& tag);

 private:
  struct Entry;

  std::unordered_map<uint64_t, std::shared_ptr<Entry>> entries_;
};

// Says how arrays, their memory and what else calls are given looks: classes and objects of the Python package, by name.
void set_array_classes(const pybind11::dict& classes);

// Adds the function of the module that runs launches: a call with positional arguments alone, as cheap as it gets.
void add_array_launches(pybind11::module_& module);

}  // namespace jwarp
