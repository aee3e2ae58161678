// Handlers by stage, and launches on the memory of GPUs, for Python.
#include "cuda_bindings.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "cuda_handler.h"
#include "cuda_run.h"
#include "fault.h"
#include "gil.h"

namespace py = pybind11;

namespace jwarp::cuda {
namespace {

py::capsule capsule(XLA_FFI_Handler* handler) { return py::capsule(reinterpret_cast<void*>(handler)); }

py::dict handlers(bool checks) {
  py::dict result;
  result["instantiate"] = capsule(checks ? instantiate_checked : instantiate);
  result["prepare"] = capsule(prepare);
  result["initialize"] = capsule(initialize);
  result["execute"] = capsule(checks ? execute_checked : execute);
  return result;
}

// The address of an array, its dtype's code and its shape.
using Array = std::tuple<uintptr_t, int64_t, std::vector<int64_t>>;

// A launch without its arrays.
class CudaLaunch {
 public:
  CudaLaunch(const std::string& kernel, const std::string& entry, const py::bytes& image, const py::buffer& plan,
             const py::buffer& launch, int64_t block, int64_t shared, int64_t per_sm, std::vector<int64_t> grid,
             const std::string& failures)
      : site_({kernel, entry, std::string_view(image), block, shared, per_sm, std::move(grid), failures},
              decoded<Plan>(plan, "a plan"), decoded<Launch>(launch, "a launch"), !failures.empty()) {}

  void run(const std::vector<Array>& arrays, uintptr_t stream) {
    const size_t results = static_cast<size_t>(site_.launch().result_count);
    if (arrays.size() < results) throw py::value_error("jwarp: fewer arrays than the launch has results");
    std::vector<XLA_FFI_Buffer> buffers;
    for (const auto& [address, dtype, shape] : arrays) {
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(dtype),
                         reinterpret_cast<void*>(address), static_cast<int64_t>(shape.size()),
                         const_cast<int64_t*>(shape.data())});
    }
    std::vector<void*> pointers;
    for (XLA_FFI_Buffer& buffer : buffers) pointers.push_back(&buffer);
    const size_t operands = pointers.size() - results;
    const Buffers view = {pointers.data(), static_cast<int64_t>(operands), pointers.data() + operands,
                          static_cast<int64_t>(results)};
    const WithoutGil no_gil;
    site_.run(view, reinterpret_cast<Stream>(stream));
  }

 private:
  template <typename T>
  static T decoded(const py::buffer& source, const char* what) {
    const std::vector<int64_t> numbers = read_numbers(source, what);
    return T(numbers.data(), static_cast<int64_t>(numbers.size()));
  }

  CudaSite site_;
};

}  // namespace

void add_bindings(py::module_& m) {
  m.def("cuda_handlers", &handlers, py::arg("checks"),
        "The handlers of the custom calls jwarp_cuda_v1 and, with checks, jwarp_cuda_debug_v1, by stage.");
  py::class_<CudaLaunch>(m, "CudaLaunch", "A launch on arrays in the memory of a GPU, which are brought to each run.")
      .def(py::init<const std::string&, const std::string&, const py::bytes&, const py::buffer&, const py::buffer&,
                    int64_t, int64_t, int64_t, std::vector<int64_t>, const std::string&>(),
           py::kw_only(), py::arg("kernel"), py::arg("entry"), py::arg("image"), py::arg("plan"), py::arg("launch"),
           py::arg("block"), py::arg("shared") = 0, py::arg("per_sm") = 0,
           py::arg("grid") = std::vector<int64_t>(), py::arg("failures") = "")
      .def("run", &CudaLaunch::run, py::arg("arrays"), py::arg("stream") = 0,
           "Puts the launch on a stream; the arrays are (address, dtype code, shape), operands then results.");
}

}  // namespace jwarp::cuda
