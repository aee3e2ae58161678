// Launches on arrays of NumPy, copies between them, loops and branches over these: all of it in one call.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "python/host_launch.h"

namespace jwarp {

// A list of steps, which keeps its arrays. A step is a bound launch; a pair (target, source) of arrays of one shape and
// element size, whose elements are copied in order (a source may repeat some by strides of 0); a triple
// (target, source, "add") of arrays of one shape and type that do not overlap, where elements are added to those of the
// target; a triple (condition, true, false) of an int32 array and two graphs, of which one runs; or a triple
// (condition, graph, None), where the graph runs while the first element of the condition is not 0.
//
// Launches look at their arrays before anything runs. Of those that only copies and sums have, the ones that others may
// change are `watched`: pairs of an array and whether it is written.
class HostGraph {
 public:
  HostGraph(const pybind11::sequence& steps, const pybind11::sequence& watched);
  ~HostGraph();
  HostGraph(const HostGraph&) = delete;
  HostGraph& operator=(const HostGraph&) = delete;

  // Runs the steps without the GIL; calls from several threads come one after the other. Throws Fault.
  void run();

 private:
  struct Place;
  struct Step;
  struct Looked;

  // What the launches are of now; another one than the last time where somebody has replaced arrays. With the GIL.
  std::shared_ptr<const Looked> look();
  void run_steps(const Looked& looked) const;

  std::vector<pybind11::object> kept_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  std::vector<BoundHostLaunch*> launches_;
  std::vector<HostGraph*> graphs_;  // of branches and loops
  std::shared_ptr<const Looked> looked_;
};

}  // namespace jwarp
