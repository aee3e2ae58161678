// Laying out a launch over its arrays, and running it without the GIL.
#include "python/host_launch.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/dtype.h"
#include "core/fault.h"
#include "core/small_array.h"
#include "cpu/compile.h"
#include "cpu/run.h"
#include "cpu/staging.h"
#include "cpu/worker_pool.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/seen_arrays.h"

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

[[noreturn]] void refuse(size_t number, const char* why) {
  invalid("array " + std::to_string(number) + " of the launch " + why);
}

// An array, and where it was when it was bound.
struct BoundArray {
  py::array array;
  int64_t dtype;
  cpu::StagedArray staged;
  std::vector<int64_t> strides;
  bool writes;

  static BoundArray of(const py::array& array, bool writes) {
    std::vector<int64_t> shape(array.shape(), array.shape() + array.ndim());
    std::vector<int64_t> strides(array.strides(), array.strides() + array.ndim());
    const int64_t dtype = dtype_code(array.dtype());
    cpu::StagedArray staged(fields(array).data, std::move(shape), strides, item_size(dtype));
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
struct BoundArrays {
  std::vector<BoundArray> arrays;
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> operands;
  std::vector<void*> results;
  std::vector<const cpu::StagedArray*> fetched;   // those that have a copy
  std::vector<const cpu::StagedArray*> put_back;  // and of them, those that are written
  std::shared_ptr<cpu::CallSite> site = nullptr;
  std::optional<cpu::FixedCall> call = std::nullopt;  // since the first run

  BoundArrays(const std::vector<py::array>& given, const Wiring& wiring) {
    arrays.reserve(given.size());
    buffers.reserve(given.size());
    for (size_t k = 0; k < given.size(); ++k) {
      const bool writes = contains(wiring.results, static_cast<int64_t>(k));
      if (writes && !given[k].writeable()) {
        throw py::value_error("jwarp: array " + std::to_string(k) + " is read-only");
      }
      const BoundArray& array = arrays.emplace_back(BoundArray::of(given[k], writes));
      const std::vector<int64_t>& shape = array.staged.shape();
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(array.dtype),
                         array.staged.memory(), static_cast<int64_t>(shape.size()),
                         const_cast<int64_t*>(shape.data())});
    }
    for (const int64_t number : wiring.operands) operands.push_back(&buffers[number]);
    for (const int64_t number : wiring.results) results.push_back(&buffers[number]);
    for (const BoundArray& array : arrays) {
      if (!array.staged.has_copy()) continue;
      fetched.push_back(&array.staged);
      if (array.writes) put_back.push_back(&array.staged);
    }
  }
  BoundArrays(const BoundArrays&) = delete;
  BoundArrays& operator=(const BoundArrays&) = delete;

  bool has_shapes_of(const BoundArrays& other) const {
    const auto same = [](const BoundArray& a, const BoundArray& b) {
      return a.dtype == b.dtype && a.staged.shape() == b.staged.shape();
    };
    return std::equal(arrays.begin(), arrays.end(), other.arrays.begin(), other.arrays.end(), same);
  }

  void check() const {
    for (size_t k = 0; k < arrays.size(); ++k) arrays[k].check(k);
  }

  // One run at a time.
  void run(std::string_view program) {
    cpu::Pool& pool = cpu::WorkerPool::instance();
    for (const cpu::StagedArray* array : fetched) array->fetch(pool);
    if (!call) call.emplace(*site, view(), pool);
    cpu::run_compiling(*call, site->kernel(), pool, [program] { return program; });
    finish(pool);
  }

  void run_once(cpu::CallSite& own, std::string_view program) const {
    cpu::Pool& pool = cpu::WorkerPool::instance();
    for (const cpu::StagedArray* array : fetched) array->fetch(pool);
    cpu::run_compiling(own, view(), pool, [program] { return program; });
    finish(pool);
  }

 private:
  Buffers view() const {
    return {operands.data(), static_cast<int64_t>(operands.size()), results.data(),
            static_cast<int64_t>(results.size())};
  }

  void finish(cpu::Pool& pool) const {
    for (const cpu::StagedArray* array : put_back) array->put_back(pool);
  }
};

HostLaunch::HostLaunch(const std::string& fingerprint, std::string program, const py::buffer& launch,
                       std::vector<int64_t> operands, std::vector<int64_t> results)
    : program_(std::move(program)),
      wiring_{std::move(operands), std::move(results)},
      site_(cpu::require_kernel(fingerprint, program_), read_launch(launch)) {}

void HostLaunch::run(const py::list& arrays) {
  const BoundArrays bound(read_arrays(arrays, wiring_), wiring_);
  const WithoutGil no_gil;
  bound.run_once(site_, program_);
}

void HostLaunch::run_on(XLA_FFI_Buffer* buffers) {
  const size_t count = wiring_.operands.size(), results = wiring_.results.size();
  SmallArray<void*, 48> pointers(count + results);
  for (size_t k = 0; k < count; ++k) pointers[k] = &buffers[wiring_.operands[k]];
  for (size_t k = 0; k < results; ++k) pointers[count + k] = &buffers[wiring_.results[k]];
  const Buffers view = {pointers.data(), static_cast<int64_t>(count), pointers.data() + count,
                        static_cast<int64_t>(results)};
  const WithoutGil no_gil;
  cpu::run_compiling(site_, view, cpu::WorkerPool::instance(), [this] { return std::string_view(program_); });
}

BoundHostLaunch::BoundHostLaunch(std::string fingerprint, std::string program, const py::buffer& launch,
                                 const py::sequence& arrays, Wiring wiring)
    : fingerprint_(std::move(fingerprint)),
      program_(std::move(program)),
      wiring_(std::move(wiring)),
      generation_(cpu::fork_generation()) {
  bound_ = make(read_arrays(arrays, wiring_), read_launch(launch), nullptr);
}

std::shared_ptr<BoundArrays> BoundHostLaunch::make(const std::vector<py::array>& arrays, const Launch& launch,
                                                   const BoundArrays* before) const {
  auto made = std::make_shared<BoundArrays>(arrays, wiring_);
  if (before != nullptr && made->has_shapes_of(*before) && before->site->launch().same_numbers(launch)) {
    made->site = before->site;
  } else {
    made->site = std::make_shared<cpu::CallSite>(cpu::require_kernel(fingerprint_, program_), launch);
  }
  return made;
}

void BoundHostLaunch::run() {
  if (generation_ != cpu::fork_generation()) {
    // The thread that had its turn when the process was forked is not there to end it.
    turn_ = std::make_shared<std::mutex>();
    generation_ = cpu::fork_generation();
  }
  bound_->check();
  const std::shared_ptr<BoundArrays> bound = bound_;
  const std::shared_ptr<std::mutex> turn = turn_;
  const WithoutGil no_gil;
  const std::lock_guard<std::mutex> lock(*turn);
  bound->run(program_);
}

void BoundHostLaunch::look(SeenArrays& seen) {
  if (generation_ != cpu::fork_generation()) {
    turn_ = std::make_shared<std::mutex>();
    generation_ = cpu::fork_generation();
  }
  bound_->check();
  for (const BoundArray& array : bound_->arrays) seen.add(array.array, array.writes);
}

void BoundHostLaunch::run_on(BoundArrays& bound) {
  const std::lock_guard<std::mutex> lock(*turn_);
  bound.run(program_);
}

void BoundHostLaunch::replace(const std::vector<std::pair<int64_t, py::array>>& arrays, const py::object& launch) {
  const std::shared_ptr<BoundArrays> before = bound_;
  std::vector<py::array> given;
  for (const BoundArray& array : before->arrays) given.push_back(array.array);
  for (const auto& [number, array] : arrays) {
    if (number < 0 || number >= static_cast<int64_t>(given.size())) {
      throw py::value_error("jwarp: a launch has no array " + std::to_string(number));
    }
    given[number] = array;
  }
  const bool same = launch.is_none();
  bound_ = make(given, same ? before->site->launch() : read_launch(py::reinterpret_borrow<py::buffer>(launch)),
                   before.get());
}

}  // namespace jwarp
