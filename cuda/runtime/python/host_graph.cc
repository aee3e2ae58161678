// Running a graph: all launches are looked at first, with the GIL, and then run without it.
#include "python/host_graph.h"

#include <Python.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "cpu/float_state.h"
#include "cpu/staging.h"
#include "cpu/sums.h"
#include "cpu/worker_pool.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/seen_arrays.h"

namespace py = pybind11;

namespace jwarp {
namespace {

// Trips of a loop between two looks for a signal: a look takes the GIL.
constexpr int64_t kTripsPerLook = 1024;

// A fill copies about so many bytes at once, which stay in the nearest cache.
constexpr int64_t kFillBytes = 1 << 14;

}  // namespace

// Where an array of a copy or a sum was when the graph was made. Its attributes can be set, and it can be resized by
// force, which frees its memory.
struct HostGraph::Place {
  py::array array;
  const py::detail::PyArray_Proxy* fields;
  const void* data;
  std::vector<int64_t> extents;  // and then the strides
  bool writes;

  Place(const py::array& given, bool is_written)
      : array(given), fields(py::detail::array_proxy(given.ptr())), data(given.data()), writes(is_written) {
    extents.assign(given.shape(), given.shape() + given.ndim());
    extents.insert(extents.end(), given.strides(), given.strides() + given.ndim());
  }

  void check() const {
    const size_t rank = extents.size() / 2;
    const size_t bytes = rank * sizeof(int64_t);
    const bool same = fields->data == data && static_cast<size_t>(fields->nd) == rank &&
                      std::memcmp(fields->dimensions, extents.data(), bytes) == 0 &&
                      std::memcmp(fields->strides, extents.data() + rank, bytes) == 0;
    if (!same) throw py::value_error("an array has changed its shape or its place since it was recorded");
    if (writes && !(fields->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_)) {
      throw py::value_error("an array has become read-only");
    }
  }
};

namespace {

// A copy of elements of any strides.
struct Copy {
  char* target;
  const char* source;
  int64_t item;
  std::vector<int64_t> shape;
  std::vector<int64_t> into;
  std::vector<int64_t> from;

  Copy(const py::array& target_array, const py::array& source_array)
      : target(static_cast<char*>(py::array(target_array).mutable_data())),
        source(static_cast<const char*>(source_array.data())),
        item(target_array.itemsize()) {
    const bool same = target_array.ndim() == source_array.ndim() && item == source_array.itemsize() &&
                      std::equal(target_array.shape(), target_array.shape() + target_array.ndim(),
                                 source_array.shape());
    if (!same) throw py::value_error("jwarp: a copy is between arrays of one shape and element size");
    for (py::ssize_t axis = 0; axis < target_array.ndim(); ++axis) {
      shape.push_back(target_array.shape(axis));
      into.push_back(target_array.strides(axis));
      from.push_back(source_array.strides(axis));
    }
    // The innermost axes that lie one after the other on both sides are one longer element.
    while (!shape.empty() && into.back() == item && from.back() == item) {
      item *= shape.back();
      shape.pop_back();
      into.pop_back();
      from.pop_back();
    }
    // So are neighbouring axes one axis, whose steps are all alike on both sides.
    for (size_t axis = shape.size(); axis-- > 1;) {
      if (into[axis - 1] != into[axis] * shape[axis] || from[axis - 1] != from[axis] * shape[axis]) continue;
      shape[axis - 1] *= shape[axis];
      into[axis - 1] = into[axis];
      from[axis - 1] = from[axis];
      shape.erase(shape.begin() + axis);
      into.erase(into.begin() + axis);
      from.erase(from.begin() + axis);
    }
  }

  void run() const { run_axis(0, target, source); }

  // One element, `bytes` over: what is there already is copied behind it, twice as much each time.
  void fill(char* to, const char* out, int64_t bytes) const {
    if (bytes == 0) return;
    std::memmove(to, out, item);
    const int64_t most = std::max(item, kFillBytes / item * item);
    for (int64_t done = item; done < bytes;) {
      const int64_t more = std::min(std::min(done, most), bytes - done);
      std::memcpy(to + done, to, more);
      done += more;
    }
  }

  void run_axis(size_t axis, char* to, const char* out) const {
    if (axis == shape.size()) {
      std::memmove(to, out, item);
      return;
    }
    if (axis + 1 == shape.size() && from[axis] == 0 && into[axis] == item) return fill(to, out, shape[axis] * item);
    for (int64_t i = 0; i < shape[axis]; ++i, to += into[axis], out += from[axis]) {
      if (axis + 1 == shape.size()) {
        std::memmove(to, out, item);
      } else {
        run_axis(axis + 1, to, out);
      }
    }
  }
};

// Elements that are added to those of another array, of any strides; the two do not overlap.
struct Sum {
  int64_t dtype;
  cpu::StagedArray target;
  cpu::StagedArray source;

  static cpu::StagedArray staged(const py::array& array, void* data) {
    return {data, std::vector<int64_t>(array.shape(), array.shape() + array.ndim()),
            std::vector<int64_t>(array.strides(), array.strides() + array.ndim()), array.itemsize()};
  }

  Sum(const py::array& target_array, const py::array& source_array)
      : dtype(dtype_code(target_array.dtype())),
        target(staged(target_array, py::array(target_array).mutable_data())),
        source(staged(source_array, const_cast<void*>(source_array.data()))) {
    const bool same = target.shape() == source.shape() && dtype == dtype_code(source_array.dtype());
    if (!same || dtype == XLA_FFI_DataType_PRED) throw py::value_error("jwarp: a sum is of arrays of one shape and type");
  }

  // What adds at once, where nothing has to be brought and few elements are added.
  cpu::AddFew at_once() const {
    return target.has_copy() || source.has_copy() ? nullptr : cpu::adder_of_few(dtype, target.bytes());
  }

  void run() const {
    cpu::Pool& pool = cpu::WorkerPool::instance();
    target.fetch(pool);
    source.fetch(pool);
    cpu::add_elements(dtype, target.memory(), source.memory(), target.bytes(), pool);
    target.put_back(pool);
  }
};

void look_for_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

struct HostGraph::Step {
  enum class Kind { kLaunch, kCopy, kAddFew, kSum, kBranch, kLoop };

  Kind kind = Kind::kLaunch;
  int64_t number = 0;  // of the launch, or of the first graph of a branch or a loop
  BoundHostLaunch* launch = nullptr;
  std::unique_ptr<Copy> copy = nullptr;
  std::unique_ptr<Sum> sum = nullptr;
  const int32_t* condition = nullptr;
  // Of a few elements that are added: the same as `sum`, at hand.
  cpu::AddFew add = nullptr;
  void* into = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
};

// The arrays of launches and graphs, by number, as they were when somebody looked.
struct HostGraph::Looked {
  uint64_t generation = cpu::fork_generation();
  std::vector<std::shared_ptr<BoundArrays>> launches;
  std::vector<std::shared_ptr<const Looked>> graphs;
  SeenArrays arrays;
};

HostGraph::~HostGraph() = default;

HostGraph::HostGraph(const py::sequence& steps, const py::sequence& watched) {
  for (const py::handle item : watched) {
    const auto parts = py::reinterpret_borrow<py::tuple>(item);
    places_.emplace_back(parts[0].cast<py::array>(), parts[1].cast<bool>());
  }
  for (const py::handle item : steps) {
    kept_.push_back(py::reinterpret_borrow<py::object>(item));
    Step step;
    if (!py::isinstance<py::tuple>(item)) {
      step.launch = item.cast<BoundHostLaunch*>();
      step.number = static_cast<int64_t>(launches_.size());
      launches_.push_back(step.launch);
    } else {
      const auto parts = py::reinterpret_borrow<py::tuple>(item);
      if (parts.size() == 2) {
        if (!py::isinstance<py::array>(parts[0]) || !py::isinstance<py::array>(parts[1])) {
          throw py::type_error("jwarp: a copy is between NumPy arrays");
        }
        step.kind = Step::Kind::kCopy;
        step.copy = std::make_unique<Copy>(parts[0].cast<py::array>(), parts[1].cast<py::array>());
      } else if (parts.size() == 3 && py::isinstance<py::array>(parts[1])) {
        step.sum = std::make_unique<Sum>(parts[0].cast<py::array>(), parts[1].cast<py::array>());
        step.add = step.sum->at_once();
        step.kind = step.add == nullptr ? Step::Kind::kSum : Step::Kind::kAddFew;
        step.into = step.sum->target.memory();
        step.from = step.sum->source.memory();
        step.bytes = step.sum->target.bytes();
      } else {
        const auto condition = parts[0].cast<py::array>();
        if (parts.size() != 3 || condition.size() < 1 || condition.itemsize() != sizeof(int32_t)) {
          throw py::value_error("jwarp: a condition is an int32 array of an element");
        }
        step.condition = static_cast<const int32_t*>(condition.data());
        step.number = static_cast<int64_t>(graphs_.size());
        graphs_.push_back(parts[1].cast<HostGraph*>());
        step.kind = parts[2].is_none() ? Step::Kind::kLoop : Step::Kind::kBranch;
        if (step.kind == Step::Kind::kBranch) graphs_.push_back(parts[2].cast<HostGraph*>());
      }
    }
    steps_.push_back(std::move(step));
  }
}

std::shared_ptr<const HostGraph::Looked> HostGraph::look() {
  for (const Place& place : places_) place.check();
  std::vector<std::shared_ptr<const Looked>> graphs;
  for (HostGraph* graph : graphs_) graphs.push_back(graph->look());
  const auto is_bound = [](const BoundHostLaunch* launch, const auto& bound) { return launch->bound() == bound; };
  const bool same = looked_ != nullptr && looked_->generation == cpu::fork_generation() && graphs == looked_->graphs &&
                    std::equal(launches_.begin(), launches_.end(), looked_->launches.begin(), is_bound) &&
                    looked_->arrays.are_same();
  if (same) return looked_;
  auto made = std::make_shared<Looked>();
  made->graphs = std::move(graphs);
  for (BoundHostLaunch* launch : launches_) {
    launch->look(made->arrays);
    made->launches.push_back(launch->bound());
  }
  looked_ = made;
  return made;
}

void HostGraph::run_steps(const Looked& looked) const {
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::kLaunch:
        step.launch->run_on(*looked.launches[step.number]);
        break;
      case Step::Kind::kCopy:
        step.copy->run();
        break;
      case Step::Kind::kAddFew: {
        const cpu::DefaultFloatState float_state;
        step.add(step.into, step.from, step.bytes);
        break;
      }
      case Step::Kind::kSum:
        step.sum->run();
        break;
      case Step::Kind::kBranch: {
        const int64_t number = step.number + (*step.condition != 0 ? 0 : 1);
        graphs_[number]->run_steps(*looked.graphs[number]);
        break;
      }
      case Step::Kind::kLoop:
        for (int64_t trip = 1; *step.condition != 0; ++trip) {
          graphs_[step.number]->run_steps(*looked.graphs[step.number]);
          if (trip % kTripsPerLook == 0) look_for_signals();
        }
        break;
    }
  }
}

void HostGraph::run() {
  const std::shared_ptr<const Looked> looked = look();
  const WithoutGil no_gil;
  run_steps(*looked);
}

}  // namespace jwarp
