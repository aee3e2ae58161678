// Handlers by stage, and launches on the memory of GPUs, for Python.
#include "python/gpu_bindings.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "core/fault.h"
#include "gpu/driver.h"
#include "gpu/places.h"
#include "python/device_array.h"
#include "python/device_graph.h"
#include "python/device_launch.h"
#include "python/gil.h"
#include "xla/gpu_handler.h"

namespace py = pybind11;

namespace jwarp::gpu {
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

[[noreturn]] void no_device(Device device) {
  throw DeviceFault(XLA_FFI_Error_Code_NOT_FOUND, {.text = "there is no CUDA device " + std::to_string(device),
                                                   .hint = "see CUDA_VISIBLE_DEVICES"});
}

std::pair<int, int> capability(Device device) {
  const Driver& cuda = driver();
  int major = 0, minor = 0;
  const bool found = cuda.device_get_attribute(&major, kMajor, device) == 0 &&
                     cuda.device_get_attribute(&minor, kMinor, device) == 0;
  if (!found) no_device(device);
  return {major, minor};
}

int device_count() {
  int count = 0;
  const Driver& cuda = driver();
  cuda.check(cuda.device_get_count(&count), "cuDeviceGetCount", "CUDA");
  return count;
}

int attribute(int number, Device device) {
  int value = 0;
  if (driver().device_get_attribute(&value, number, device) != 0) {
    throw py::value_error("jwarp: CUDA device " + std::to_string(device) + " has no attribute " +
                          std::to_string(number));
  }
  return value;
}

std::string device_name(Device device) {
  char text[256] = "";
  if (driver().device_get_name(text, sizeof text - 1, device) != 0) return "";
  return text;
}

std::pair<size_t, size_t> memory_info(Device device) {
  const Driver& cuda = driver();
  const std::string who = "cuda:" + std::to_string(device);
  const CurrentContext of_device(cuda, primary_context(device, who), who);
  size_t free = 0, total = 0;
  cuda.check(cuda.memory_get_info(&free, &total), "cuMemGetInfo", who);
  return {free, total};
}

}  // namespace

void add_bindings(py::module_& m) {
  m.def("cuda_handlers", &handlers, py::arg("checks"),
        "The handlers of the custom calls jwarp_cuda_v1 and, with checks, jwarp_cuda_debug_v1, by stage.");
  m.def(
      "note_place",
      [](const py::bytes& image, const std::string& entry, const std::string& place) {
        const std::string_view content(image);
        const WithoutGil no_gil;  // another thread may be loading an image, which takes its time
        note_place(content, entry, place);
      },
      py::arg("image"), py::arg("entry"), py::arg("place"),
      "Says where a kernel is written, for errors of launches by XLA: as file:line.");
  py::class_<DeviceLaunch>(m, "DeviceLaunch",
                           "A launch on arrays in the memory of a GPU, which are brought to each run.")
      .def(py::init<const std::string&, const std::string&, const py::bytes&, const py::buffer&, const py::buffer&,
                    int64_t, int64_t, int64_t, std::vector<int64_t>, const std::string&, int64_t>(),
           py::kw_only(), py::arg("kernel"), py::arg("entry"), py::arg("image"), py::arg("plan"), py::arg("launch"),
           py::arg("block"), py::arg("shared") = 0, py::arg("per_sm") = 0,
           py::arg("grid") = std::vector<int64_t>(), py::arg("failures") = "", py::arg("heap") = 0)
      .def_property_readonly("has_checks", &DeviceLaunch::has_checks, "Whether each run is waited for.")
      .def("run", &DeviceLaunch::run, py::arg("arguments"), py::arg("stream") = 0,
           py::arg("device") = -1, py::arg("keep") = py::none(),
           "Puts the launch on a stream. Arguments are operands, then results, each (memory, dtype code, shape): the\n"
           "memory is an address on `device`, the bytes of a value, or None for what does not count. The stream 0 is\n"
           "that of `device`, or of the current context if it is -1. `keep` is kept until the launch has ended; where\n"
           "it is None, that is waited for.");
  py::class_<DeviceGraph>(m, "DeviceGraph", "What is put on a stream of a GPU, as a CUDA graph.")
      .def(py::init<Device>(), py::arg("device"))
      .def("begin", &DeviceGraph::begin, "The stream that takes what is put on it, which does not run.")
      .def("end", &DeviceGraph::end, "Lets `launch` run what the stream has taken.")
      .def("launch", &DeviceGraph::launch, py::arg("stream"), "Runs it after what is on a stream of the device.");
  py::class_<DeviceMemory>(m, "DeviceMemory", "Memory of a GPU for launches on one stream, given back in its order.")
      .def(py::init<int64_t, uintptr_t, Device, std::string>(), py::arg("bytes"), py::arg("stream"),
           py::arg("device"), py::arg("who"))
      .def_property_readonly("address", &DeviceMemory::address)
      .def("fill", &DeviceMemory::fill, py::arg("target"), py::arg("source"), py::arg("bytes"),
           "Copies bytes between two addresses, in the order of the stream; zeros without a source (0).")
      .def("set", &DeviceMemory::set, py::arg("target"), py::arg("pattern"), py::arg("width"), py::arg("count"),
           "Sets so many elements of 1, 2 or 4 bytes to a pattern, in the order of the stream.")
      .def("upload", &DeviceMemory::upload, py::arg("target"), py::arg("source"),
           "Copies the bytes of a contiguous buffer to an address, after what is on the stream; that has ended then.")
      .def("download", &DeviceMemory::download, py::arg("target"), py::arg("source"),
           "Copies bytes from an address to a contiguous buffer, after what is on the stream; that has ended then.")
      .def("wait", &DeviceMemory::wait, "Waits for all that is on the stream.");
  m.def("dlpack_contradiction", &dlpack_contradiction, py::arg("capsule"),
        "The reason why what a capsule of DLPack describes cannot be an array; empty if it can.");
  py::class_<DeviceArray>(m, "DeviceArray", "An array in the memory of a GPU, borrowed by DLPack from its owner.")
      .def(py::init<const py::object&>(), py::arg("capsule"))
      .def_property_readonly("address", &DeviceArray::address)
      .def_property_readonly("device", &DeviceArray::device, "The number of the CUDA device.")
      .def_property_readonly("dtype", &DeviceArray::dtype, "The code of its dtype; 0 for one that kernels do not know.")
      .def_property_readonly("shape", &DeviceArray::shape)
      .def_property_readonly("strides", &DeviceArray::strides, "In bytes.")
      .def_property_readonly("read_only", &DeviceArray::read_only);
  m.def("cuda_capability", &capability, py::arg("device"), "Major and minor compute capability of a CUDA device.");
  m.def(
      "lend_cuda",
      [](uintptr_t address, int32_t device, uint8_t kind, uint8_t bits, std::vector<int64_t> shape,
         std::vector<int64_t> strides, py::object owner, bool versioned) {
        return lend({address, device, kind, bits, std::move(shape), std::move(strides), std::move(owner)}, versioned);
      },
      py::arg("address"), py::arg("device"), py::arg("kind"), py::arg("bits"), py::arg("shape"), py::arg("strides"),
      py::arg("owner"), py::arg("versioned"),
      "The capsule of DLPack's for memory of a CUDA device; kind and bits of the elements are DLPack's.");
  m.def("cuda_device_count", &device_count, "The number of CUDA devices. An error where the driver does not start.");
  m.def("cuda_device_name", &device_name, py::arg("device"), "The name of a CUDA device.");
  m.def("cuda_attribute", &attribute, py::arg("number"), py::arg("device"),
        "An attribute of a CUDA device, by the driver's number.");
  m.def("cuda_memory_info", &memory_info, py::arg("device"), "The free and all bytes of a CUDA device's memory.");
}

}  // namespace jwarp::gpu
