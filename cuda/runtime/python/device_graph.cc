// Capturing a stream of its own, and what is left of it.
#include "python/device_graph.h"

#include "core/fault.h"
#include "python/gil.h"

namespace jwarp::gpu {
namespace {

constexpr char kName[] = "wp.Graph";

}  // namespace

DeviceGraph::~DeviceGraph() {
  if (stream_ == nullptr && ready_ == nullptr) return;
  try {
    const Driver& cuda = driver();
    const CurrentContext of_device(cuda, primary_context(device_, kName), kName);
    forget(cuda);
    if (ready_ != nullptr) cuda.graph_exec_destroy(ready_);
  } catch (const Fault&) {
    // The device is gone, and its graphs with it.
  }
}

void DeviceGraph::forget(const Driver& cuda) {
  if (stream_ == nullptr) return;
  Graph taken = nullptr;
  if (cuda.stream_end_capture(stream_, &taken) == 0 && taken != nullptr) cuda.graph_destroy(taken);
  cuda.stream_destroy(stream_);
  stream_ = nullptr;
}

uintptr_t DeviceGraph::begin() {
  if (stream_ != nullptr || ready_ != nullptr) invalid("a graph is made once");
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, kName), kName);
  cuda.check(cuda.stream_create(&stream_, kNonBlocking), "cuStreamCreate", kName);
  const Result result = cuda.stream_begin_capture(stream_, kRelaxed);
  if (result != 0) {
    cuda.stream_destroy(stream_);
    stream_ = nullptr;
  }
  cuda.check(result, "cuStreamBeginCapture", kName);
  return reinterpret_cast<uintptr_t>(stream_);
}

void DeviceGraph::end() {
  if (stream_ == nullptr) invalid("the graph has not begun");
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, kName), kName);
  Graph taken = nullptr;
  const Result captured = cuda.stream_end_capture(stream_, &taken);
  cuda.stream_destroy(stream_);
  stream_ = nullptr;
  cuda.check(captured, "cuStreamEndCapture", kName);
  const Result made = cuda.graph_instantiate(&ready_, taken, 0);
  cuda.graph_destroy(taken);
  if (made != 0) ready_ = nullptr;
  cuda.check(made, "cuGraphInstantiate", kName);
}

void DeviceGraph::launch(uintptr_t stream) const {
  if (ready_ == nullptr) invalid("the graph has not ended");
  const WithoutGil no_gil;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, kName), kName);
  cuda.check(cuda.graph_launch(ready_, reinterpret_cast<Stream>(stream)), "cuGraphLaunch", kName);
}

}  // namespace jwarp::gpu
