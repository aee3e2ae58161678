// Laying out a recorded launch over its arrays, and running it without the GIL.
#include "replay.h"

#include <algorithm>
#include <string_view>

#include "arrays.h"
#include "compiler.h"
#include "dtype.h"
#include "fault.h"
#include "gil.h"
#include "run.h"
#include "staging.h"
#include "sums.h"
#include "worker_pool.h"

namespace py = pybind11;

namespace jwarp {
namespace {

using Flags = py::detail::npy_api::constants;

const py::detail::PyArray_Proxy& fields(const py::array& array) {
  return *py::detail::array_proxy(array.ptr());
}

bool contains(const std::vector<int64_t>& numbers, int64_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

bool is_written(const Wiring& wiring, int64_t number) {
  const auto is_target = [number](const auto& pair) { return pair.second == number; };
  return contains(wiring.results, number) || std::any_of(wiring.added.begin(), wiring.added.end(), is_target);
}

// An array, and where it was when it was recorded.
struct Recording {
  py::array array;
  int64_t dtype;
  StagedArray staged;
  std::vector<int64_t> strides;
  bool writes;

  static Recording of(const py::array& array, bool writes) {
    std::vector<int64_t> shape(array.shape(), array.shape() + array.ndim());
    std::vector<int64_t> strides(array.strides(), array.strides() + array.ndim());
    const int64_t dtype = dtype_code(array.dtype());
    StagedArray staged(fields(array).data, std::move(shape), strides, item_size(dtype));
    return {array, dtype, std::move(staged), std::move(strides), writes};
  }

  // Attributes of an array can be set, and it can be resized by force, which frees its memory.
  void check(size_t number) const {
    const auto& now = fields(array);
    const std::vector<int64_t>& shape = staged.shape();
    const bool same = now.data == staged.data() && now.nd == static_cast<int>(shape.size()) &&
                      std::equal(shape.begin(), shape.end(), now.dimensions) &&
                      std::equal(strides.begin(), strides.end(), now.strides);
    const std::string name = "array " + std::to_string(number) + " of the launch ";
    if (!same) invalid(name + "has changed its shape or its place since it was recorded");
    if (writes && !(now.flags & Flags::NPY_ARRAY_WRITEABLE_)) invalid(name + "has become read-only");
  }
};

}  // namespace

struct Replay::Recorded {
  Launch launch;
  std::shared_ptr<CallSite> site;
  std::vector<Recording> arrays;
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> operands;
  std::vector<void*> results;

  void check() const {
    for (size_t k = 0; k < arrays.size(); ++k) arrays[k].check(k);
  }

  void run(const Wiring& wiring, std::string_view program, Pool& pool) const {
    for (const Recording& recording : arrays) recording.staged.fetch(pool);
    const Buffers view = {operands.data(), static_cast<int64_t>(operands.size()), results.data(),
                          static_cast<int64_t>(results.size())};
    run_compiling(*site, view, pool, [program] { return program; });
    for (const auto& [source, target] : wiring.added) {
      const StagedArray& into = arrays[target].staged;
      add_elements(arrays[target].dtype, into.memory(), arrays[source].staged.memory(), into.bytes(), pool);
    }
    for (const Recording& recording : arrays) {
      if (recording.writes) recording.staged.put_back(pool);
    }
  }
};

Replay::Replay(std::string fingerprint, std::string program, const py::buffer& launch, const py::sequence& arrays,
               Wiring wiring)
    : fingerprint_(std::move(fingerprint)),
      program_(std::move(program)),
      wiring_(std::move(wiring)),
      generation_(fork_generation()) {
  const int64_t count = static_cast<int64_t>(arrays.size());
  const auto check = [count](int64_t number) {
    if (number < 0 || number >= count) throw py::value_error("jwarp: a launch has no array " + std::to_string(number));
  };
  for (const int64_t number : wiring_.operands) check(number);
  for (const int64_t number : wiring_.results) check(number);
  for (const auto& [source, target] : wiring_.added) {
    check(target);
    if (!contains(wiring_.results, source)) throw py::value_error("jwarp: only results can be added to an array");
  }
  std::vector<py::array> given;
  for (const py::handle item : arrays) {
    if (!py::isinstance<py::array>(item)) throw py::type_error("jwarp: a launch in place takes NumPy arrays");
    given.push_back(py::reinterpret_borrow<py::array>(item));
  }
  const std::vector<int64_t> numbers = read_numbers(launch, "a launch");
  recorded_ = make(given, Launch(numbers.data(), static_cast<int64_t>(numbers.size())), nullptr);
}

std::shared_ptr<Replay::Recorded> Replay::make(const std::vector<py::array>& arrays, const Launch& launch,
                                               const Recorded* before) const {
  auto made = std::make_shared<Recorded>(Recorded{launch, nullptr, {}, {}, {}, {}});
  bool same_shapes = before != nullptr;
  for (size_t k = 0; k < arrays.size(); ++k) {
    const bool writes = is_written(wiring_, static_cast<int64_t>(k));
    if (writes && !arrays[k].writeable()) {
      throw py::value_error("jwarp: array " + std::to_string(k) + " is read-only");
    }
    made->arrays.push_back(Recording::of(arrays[k], writes));
    same_shapes = same_shapes && made->arrays[k].staged.shape() == before->arrays[k].staged.shape() &&
                  made->arrays[k].dtype == before->arrays[k].dtype;
  }
  for (const auto& [source, target] : wiring_.added) {
    const Recording &from = made->arrays[source], &into = made->arrays[target];
    if (from.staged.shape() != into.staged.shape() || from.dtype != into.dtype ||
        from.dtype == XLA_FFI_DataType_PRED) {
      throw py::value_error("jwarp: a result cannot be added to array " + std::to_string(target));
    }
  }
  for (const Recording& recording : made->arrays) {
    const StagedArray& staged = recording.staged;
    made->buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(recording.dtype),
                             staged.memory(), static_cast<int64_t>(staged.shape().size()),
                             const_cast<int64_t*>(staged.shape().data())});
  }
  for (const int64_t number : wiring_.operands) made->operands.push_back(&made->buffers[number]);
  for (const int64_t number : wiring_.results) made->results.push_back(&made->buffers[number]);
  if (same_shapes && before->launch.same_numbers(launch)) {
    made->site = before->site;
  } else {
    made->site = std::make_shared<CallSite>(require_kernel(fingerprint_, program_), launch);
  }
  return made;
}

void Replay::run() {
  if (generation_ != fork_generation()) {
    // The thread that had its turn when the process was forked is not there to end it.
    turn_ = std::make_shared<std::mutex>();
    generation_ = fork_generation();
  }
  recorded_->check();
  const std::shared_ptr<Recorded> recorded = recorded_;
  const std::shared_ptr<std::mutex> turn = turn_;
  const WithoutGil no_gil;
  const std::lock_guard<std::mutex> lock(*turn);
  recorded->run(wiring_, program_, WorkerPool::instance());
}

void Replay::replace(const std::vector<std::pair<int64_t, py::array>>& arrays, const py::object& launch) {
  const std::shared_ptr<Recorded> before = recorded_;
  std::vector<py::array> given;
  for (const Recording& recording : before->arrays) given.push_back(recording.array);
  for (const auto& [number, array] : arrays) {
    if (number < 0 || number >= static_cast<int64_t>(given.size())) {
      throw py::value_error("jwarp: a launch has no array " + std::to_string(number));
    }
    given[number] = array;
  }
  if (launch.is_none()) {
    recorded_ = make(given, before->launch, before.get());
    return;
  }
  const std::vector<int64_t> numbers = read_numbers(py::reinterpret_borrow<py::buffer>(launch), "a launch");
  recorded_ = make(given, Launch(numbers.data(), static_cast<int64_t>(numbers.size())), before.get());
}

}  // namespace jwarp
