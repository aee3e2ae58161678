// Repeating calls: the look-up of a layout key in a table of executables, a check, and the run.
#pragma once

#include <Python.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "python/host_launch.h"
#include "python/layout_key.h"
#include "xla/ffi/api/c_api.h"

namespace jwarp {

// A launch in host memory, for all calls of one layout. Without a launch it runs nothing.
class HostExecutable {
 public:
  HostExecutable() = default;

  // Takes a launch, which is a HostLaunch, to run on the leaves of calls. `arrays` are what it is called with for the leaves
  // `values`, `written` those that it writes to, by number. What comes back are the leaves `results`, as a dict if there
  // are `names` for them, or None where `results` is None. False if it cannot run on such leaves.
  bool learn(const pybind11::object& launch, const pybind11::list& values, const pybind11::list& arrays,
             const std::vector<int64_t>& written, const pybind11::object& results, const pybind11::object& names);

  // True unless `run` would refuse the call before anything has run.
  bool can_run(const LayoutKey& call) const;
  // Runs the launch on the leaves of a call of its layout, and gives what comes back. NotImplemented if the slow path is
  // needed, and then nothing has run. Throws error_already_set and Fault.
  pybind11::object run(const LayoutKey& call) const;

  bool gives_results() const { return gives_results_; }
  bool is_ready() const { return static_cast<bool>(launch_); }

 private:
  // The source of a leaf: its memory; a number, converted to one of this type; or always the same array.
  struct Operand {
    int64_t dtype;
    std::vector<int64_t> shape;
    int64_t item_bytes;
    bool is_written;
    pybind11::array fixed;  // for no array at all
    pybind11::dtype type;
  };

  pybind11::array array_for(const Leaf& leaf, const Operand& operand) const;
  bool is_apart(const LayoutKey& call, size_t k, const pybind11::array& array) const;
  pybind11::object results(const LayoutKey& call) const;

  std::vector<Operand> operands_;
  pybind11::object launch_;
  std::vector<int64_t> results_;
  pybind11::object names_ = pybind11::none();
  bool is_direct_ = true;  // all arrays lie as the launch takes them
  bool gives_results_ = false;
};

// Adds the classes and functions of the module that repeat calls.
void add_executables(pybind11::module_& module);

}  // namespace jwarp
