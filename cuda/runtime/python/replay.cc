// Laying out a recorded launch over its arrays, and running it without the GIL.
#include "python/replay.h"

#include <algorithm>
#include <string_view>

#include "core/dtype.h"
#include "core/fault.h"
#include "cpu/compile.h"
#include "cpu/run.h"
#include "cpu/staging.h"
#include "cpu/sums.h"
#include "cpu/worker_pool.h"
#include "python/arrays.h"
#include "python/gil.h"

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

[[noreturn]] void refuse(size_t number, const char* why) {
  invalid("array " + std::to_string(number) + " of the launch " + why);
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
    if (!same) refuse(number, "has changed its shape or its place since it was recorded");
    if (writes && !(now.flags & Flags::NPY_ARRAY_WRITEABLE_)) refuse(number, "has become read-only");
  }
};

// The arrays of a launch, after a look at the numbers that name them.
std::vector<py::array> read_arrays(const py::sequence& arrays, const Wiring& wiring) {
  const int64_t count = static_cast<int64_t>(arrays.size());
  const auto check = [count](int64_t number) {
    if (number < 0 || number >= count) throw py::value_error("jwarp: a launch has no array " + std::to_string(number));
  };
  for (const int64_t number : wiring.operands) check(number);
  for (const int64_t number : wiring.results) check(number);
  for (const auto& [source, target] : wiring.added) {
    check(target);
    if (!contains(wiring.results, source)) throw py::value_error("jwarp: only results can be added to an array");
  }
  std::vector<py::array> result;
  result.reserve(count);
  for (const py::handle item : arrays) {
    if (!py::isinstance<py::array>(item)) throw py::type_error("jwarp: a launch in place takes NumPy arrays");
    result.push_back(py::reinterpret_borrow<py::array>(item));
  }
  return result;
}

Launch read_launch(const py::buffer& launch) {
  const std::vector<int64_t> numbers = read_numbers(launch, "a launch");
  return Launch(numbers.data(), static_cast<int64_t>(numbers.size()));
}

}  // namespace

// Arrays laid out as the buffers of a launch.
struct Recorded {
  std::vector<Recording> arrays;
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> operands;
  std::vector<void*> results;
  std::shared_ptr<CallSite> site = nullptr;

  Recorded(const std::vector<py::array>& given, const Wiring& wiring) {
    arrays.reserve(given.size());
    buffers.reserve(given.size());
    for (size_t k = 0; k < given.size(); ++k) {
      const bool writes = is_written(wiring, static_cast<int64_t>(k));
      if (writes && !given[k].writeable()) {
        throw py::value_error("jwarp: array " + std::to_string(k) + " is read-only");
      }
      const Recording& recording = arrays.emplace_back(Recording::of(given[k], writes));
      const std::vector<int64_t>& shape = recording.staged.shape();
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(recording.dtype),
                         recording.staged.memory(), static_cast<int64_t>(shape.size()),
                         const_cast<int64_t*>(shape.data())});
    }
    for (const int64_t number : wiring.operands) operands.push_back(&buffers[number]);
    for (const int64_t number : wiring.results) results.push_back(&buffers[number]);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  bool has_shapes_of(const Recorded& other) const {
    const auto same = [](const Recording& a, const Recording& b) {
      return a.dtype == b.dtype && a.staged.shape() == b.staged.shape();
    };
    return std::equal(arrays.begin(), arrays.end(), other.arrays.begin(), other.arrays.end(), same);
  }

  void check() const {
    for (size_t k = 0; k < arrays.size(); ++k) arrays[k].check(k);
  }

  void run(CallSite& site, const Wiring& wiring, std::string_view program) const {
    Pool& pool = WorkerPool::instance();
    for (const Recording& recording : arrays) recording.staged.fetch(pool);
    const Buffers view = {operands.data(), static_cast<int64_t>(operands.size()), results.data(),
                          static_cast<int64_t>(results.size())};
    run_compiling(site, view, pool, [program] { return program; });
    for (const auto& [source, target] : wiring.added) {
      const StagedArray& into = arrays[target].staged;
      add_elements(arrays[target].dtype, into.memory(), arrays[source].staged.memory(), into.bytes(), pool);
    }
    for (const Recording& recording : arrays) {
      if (recording.writes) recording.staged.put_back(pool);
    }
  }
};

InPlaceCall::InPlaceCall(const std::string& fingerprint, std::string program, const py::buffer& launch,
                         std::vector<int64_t> operands, std::vector<int64_t> results)
    : program_(std::move(program)),
      wiring_{std::move(operands), std::move(results), {}},
      site_(require_kernel(fingerprint, program_), read_launch(launch)) {}

void InPlaceCall::run(const py::list& arrays) {
  const Recorded recorded(read_arrays(arrays, wiring_), wiring_);
  const WithoutGil no_gil;
  recorded.run(site_, wiring_, program_);
}

Replay::Replay(std::string fingerprint, std::string program, const py::buffer& launch, const py::sequence& arrays,
               Wiring wiring)
    : fingerprint_(std::move(fingerprint)),
      program_(std::move(program)),
      wiring_(std::move(wiring)),
      generation_(fork_generation()) {
  recorded_ = make(read_arrays(arrays, wiring_), read_launch(launch), nullptr);
}

std::shared_ptr<Recorded> Replay::make(const std::vector<py::array>& arrays, const Launch& launch,
                                       const Recorded* before) const {
  auto made = std::make_shared<Recorded>(arrays, wiring_);
  for (const auto& [source, target] : wiring_.added) {
    const Recording &from = made->arrays[source], &into = made->arrays[target];
    if (from.staged.shape() != into.staged.shape() || from.dtype != into.dtype ||
        from.dtype == XLA_FFI_DataType_PRED) {
      throw py::value_error("jwarp: a result cannot be added to array " + std::to_string(target));
    }
  }
  if (before != nullptr && made->has_shapes_of(*before) && before->site->launch().same_numbers(launch)) {
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
  recorded->run(*recorded->site, wiring_, program_);
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
  const bool same = launch.is_none();
  recorded_ = make(given, same ? before->site->launch() : read_launch(py::reinterpret_borrow<py::buffer>(launch)),
                   before.get());
}

}  // namespace jwarp
