// The Python module jwarp._native.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/fault.h"
#include "cpu/call_pool.h"
#include "cpu/compile.h"
#include "cpu/run.h"
#include "cpu/share.h"
#include "cpu/table.h"
#include "cpu/worker_pool.h"
#include "python/executables.h"
#include "python/arrays.h"
#include "python/compiler.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/gpu_bindings.h"
#include "python/host_graph.h"
#include "python/host_launch.h"
#include "python/raw_call.h"
#include "python/wire_format.h"
#include "xla/cpu_handler.h"

namespace py = pybind11;

namespace jwarp {
namespace {

constexpr int64_t kMaxThreads = 1024;

cpu::Entry entry_at(uintptr_t address) { return reinterpret_cast<cpu::Entry>(address); }

py::dict handlers() {
  py::dict result;
  result["instantiate"] = py::capsule(reinterpret_cast<void*>(instantiate_launch));
  result["execute"] = py::capsule(reinterpret_cast<void*>(execute_launch));
  return result;
}

void register_entries(const std::string& fingerprint, const py::buffer& plan, uintptr_t fast,
                      uintptr_t checked, std::vector<std::string> failures) {
  const std::vector<int64_t> numbers = read_numbers(plan, "a plan");
  cpu::register_kernel(fingerprint, Plan(numbers.data(), static_cast<int64_t>(numbers.size())),
                       std::move(failures), entry_at(fast), entry_at(checked));
}

std::tuple<bool, bool> known_versions(const std::string& fingerprint) {
  cpu::Kernel* kernel = cpu::find_kernel(fingerprint);
  if (kernel == nullptr) return {false, false};
  return {kernel->fast.load() != nullptr, kernel->checked.load() != nullptr};
}

void limit_threads(int64_t limit, bool eager) {
  if (limit < 0 || limit > kMaxThreads) {
    throw py::value_error("jwarp: the thread limit must lie between 0 and " + std::to_string(kMaxThreads));
  }
  cpu::set_thread_limit(limit, eager);
}

void run_launch(const std::string& fingerprint, const py::buffer& launch, const py::sequence& operands,
                int64_t threads) {
  if (threads < 0 || threads > kMaxThreads) {
    throw py::value_error("jwarp: threads must lie between 0 and " + std::to_string(kMaxThreads));
  }
  const std::vector<int64_t> numbers = read_numbers(launch, "a launch");
  Launch decoded(numbers.data(), static_cast<int64_t>(numbers.size()));
  const ArrayBuffers arrays(operands, decoded.result_count);

  const WithoutGil no_gil;
  cpu::CallSite site(cpu::require_kernel(fingerprint, {}), std::move(decoded));
  cpu::CallPool pool(threads == 0 ? cpu::available_cpus() : threads);
  cpu::run_compiling(site, arrays.view(), pool, [] { return std::string_view(); });
}

std::unique_ptr<BoundHostLaunch> make_bound_launch(const std::string& fingerprint, const std::string& program,
                                                   const py::buffer& launch, const py::sequence& arrays,
                                                   std::vector<int64_t> operands, std::vector<int64_t> results) {
  return std::make_unique<BoundHostLaunch>(fingerprint, program, launch, arrays,
                                           Wiring{std::move(operands), std::move(results)});
}

constexpr const char* kReplayed = "jwarp.replayed";

PyObject* replay_bound(PyObject* replayed, PyObject*) {
  return raw_call([replayed] {
    static_cast<BoundHostLaunch*>(PyCapsule_GetPointer(replayed, kReplayed))->run();
    return Py_NewRef(Py_None);
  });
}

// A function that calls a bound launch, which it keeps, in half the time that calling the object takes.
py::object replayer(const py::object& launch) {
  static PyMethodDef method = {"replay", replay_bound, METH_NOARGS, "Runs the launch."};
  const auto free = [](PyObject* capsule) { Py_DECREF(static_cast<PyObject*>(PyCapsule_GetContext(capsule))); };
  auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(launch.cast<BoundHostLaunch*>(), kReplayed, free));
  if (!capsule) throw py::error_already_set();
  PyCapsule_SetContext(capsule.ptr(), Py_NewRef(launch.ptr()));
  auto made = py::reinterpret_steal<py::object>(PyCFunction_New(&method, capsule.ptr()));
  if (!made) throw py::error_already_set();
  return made;
}

void translate_fault(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Fault& fault) {
    set_error(fault);
  }
}

}  // namespace
}  // namespace jwarp

PYBIND11_MODULE(_native, m) {
  m.doc() = "XLA custom call handlers and the CPU launcher of jwarp.";
  m.attr("interface") = JWARP_INTERFACE;
  py::register_local_exception_translator(jwarp::translate_fault);
  jwarp::cpu::set_compile(jwarp::call_compiler);

  m.def("handlers", &jwarp::handlers, "The handlers of the custom call jwarp_launch_v1, by stage.");
  m.def("register_kernel", &jwarp::register_entries, py::arg("fingerprint"), py::arg("plan"), py::arg("fast"),
        py::arg("checked"), py::arg("failures") = std::vector<std::string>(),
        "Adds compiled entries, by address; 0 is one that is not compiled. `failures` are the texts of checks.");
  m.def("known_versions", &jwarp::known_versions, py::arg("fingerprint"),
        "Whether the fast and the checked version of a kernel are compiled.");
  m.def("set_compiler", &jwarp::set_compiler, py::arg("callback").none(true),
        "Sets callback(fingerprint, program, version), which compiles and registers what a launch lacks.");
  m.def("set_thread_limit", &jwarp::limit_threads, py::arg("limit"), py::kw_only(), py::arg("eager") = false,
        "Sets how many threads share a launch; 0 is all of the pool. Eager shares even short launches.");
  m.def("ffi_api_version", [] { return std::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR); },
        "Major and minor version of the XLA headers that this module was built with.");
  m.def("wire_format", &jwarp::wire_format, "The numbers that Python has to know as well, by group and name.");
  m.def("run_launch", &jwarp::run_launch, py::arg("fingerprint"), py::arg("launch"), py::arg("operands"),
        py::arg("threads") = 1, "Runs a launch on NumPy arrays, operands then results, without XLA.");

  py::class_<jwarp::HostLaunch>(m, "HostLaunch", "A launch on NumPy arrays in place, called with its arrays.")
      .def(py::init<const std::string&, std::string, const py::buffer&, std::vector<int64_t>, std::vector<int64_t>>(),
           py::arg("fingerprint"), py::arg("program"), py::arg("launch"), py::arg("operands"), py::arg("results"))
      .def("__call__", &jwarp::HostLaunch::run, py::arg("arrays"), "Runs the launch on arrays, without the GIL.");
  py::class_<jwarp::BoundHostLaunch>(m, "BoundHostLaunch",
                                     "A launch on NumPy arrays, which it keeps; calling it runs it in place.")
      .def(py::init(&jwarp::make_bound_launch), py::arg("fingerprint"), py::arg("program"), py::arg("launch"),
           py::arg("arrays"), py::arg("operands"), py::arg("results"),
           "Operands and results are numbers of arrays.")
      .def("__call__", &jwarp::BoundHostLaunch::run, "Runs the launch without the GIL, on threads of this module.")
      .def_property_readonly("replay", &jwarp::replayer, "A function that calls it, at less than calling it costs.")
      .def("replace", &jwarp::BoundHostLaunch::replace, py::arg("arrays"), py::arg("launch") = py::none(),
           "Replaces arrays, as pairs of number and array, and the launch unless it is None.");
  py::class_<jwarp::HostGraph>(m, "HostGraph", "Launches on NumPy arrays, copies, loops and branches, run in one call.")
      .def(py::init<const py::sequence&, const py::sequence&>(), py::arg("steps"), py::arg("watched") = py::tuple(),
           "Steps are bound launches, pairs (target, source) of arrays, triples (target, source, \"add\") for a sum,"
           " (condition, graph, graph) for a branch, and (condition, graph, None) for a loop."
           " Of copies and sums it looks at the arrays that are `watched` before it runs, pairs of one and whether it is"
           " written.")
      .def("__call__", &jwarp::HostGraph::run, "Runs the steps without the GIL.");
  jwarp::add_layout_key(m);
  jwarp::add_executables(m);
  jwarp::gpu::add_bindings(m);
  jwarp::cpu::WorkerPool::instance();  // made while no other thread can fork halfway; it has no threads yet
  // Before Python ends, so that no thread runs a kernel whose code is being freed.
  py::module_::import("atexit").attr("register")(
      py::cpp_function([] {
        const jwarp::WithoutGil no_gil;
        jwarp::cpu::WorkerPool::instance().stop();
      }));
}
