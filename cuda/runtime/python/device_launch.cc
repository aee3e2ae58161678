// Values put into device memory, the device's context, and what has to live until a launch has ended.
#include "python/device_launch.h"

#include <pybind11/stl.h>

#include <cstring>
#include <deque>
#include <optional>
#include <string_view>

#include "core/dtype.h"
#include "core/fault.h"
#include "gpu/stream_memory.h"
#include "python/arrays.h"
#include "python/gil.h"

namespace py = pybind11;

namespace jwarp::gpu {
namespace {

constexpr int64_t kAlignment = 256;
constexpr Result kFirstOfCaptures = 900;  // what is not allowed, or not known, while some stream is captured

template <typename T>
T decoded(const py::buffer& source, const char* what) {
  const std::vector<int64_t> numbers = read_numbers(source, what);
  return T(numbers.data(), static_cast<int64_t>(numbers.size()));
}

// The arguments of a call as buffers. Those that have no place yet get one in memory of the call.
class Arguments {
 public:
  Arguments(const py::sequence& arguments, int64_t result_count) {
    const auto count = static_cast<int64_t>(arguments.size());
    if (count < result_count) throw py::value_error("jwarp: fewer arguments than the launch has results");
    operand_count_ = count - result_count;
    given_.reserve(count);
    for (const py::handle argument : arguments) add(argument.cast<py::tuple>());
    for (const Given& given : given_) pointers_.push_back(const_cast<XLA_FFI_Buffer*>(&given.buffer));
  }

  Buffers view() const {
    return {pointers_.data(), operand_count_, pointers_.data() + operand_count_,
            static_cast<int64_t>(pointers_.size()) - operand_count_};
  }
  int64_t own_bytes() const { return own_bytes_; }

  // Places what has no place from `memory` on, and puts the values there. They are parameters of the driver's
  // calls, so that a captured graph keeps them.
  void place(const Driver& cuda, Address memory, Stream stream, const std::string& who) {
    for (Given& given : given_) {
      if (given.offset < 0) continue;
      const Address start = memory + static_cast<Address>(given.offset);
      given.buffer.data = reinterpret_cast<void*>(start);
      const int64_t step = std::min<int64_t>(4, item_size(given.buffer.dtype));
      for (size_t at = 0; at < given.value.size(); at += static_cast<size_t>(step)) {
        put(cuda, start + at, given.value.substr(at, static_cast<size_t>(step)), stream, who);
      }
    }
  }

 private:
  struct Given {
    XLA_FFI_Buffer buffer;
    std::vector<int64_t> shape;
    std::string_view value;  // in the caller's bytes
    int64_t offset = -1;     // in memory of the call
  };

  void add(const py::tuple& argument) {
    if (argument.size() != 3) throw py::value_error("jwarp: an argument is (memory, dtype code, shape)");
    Given& given = given_.emplace_back();
    given.shape = argument[2].cast<std::vector<int64_t>>();
    const auto dtype = argument[1].cast<int64_t>();
    given.buffer = {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(dtype), nullptr,
                    static_cast<int64_t>(given.shape.size()), given.shape.data()};
    const py::object memory = argument[0];
    if (py::isinstance<py::int_>(memory)) {
      given.buffer.data = reinterpret_cast<void*>(memory.cast<uintptr_t>());
      return;
    }
    for (const int64_t extent : given.shape) {
      if (extent < 0) throw py::value_error("jwarp: an extent is negative");
    }
    const int64_t bytes = product(given.shape.data(), given.buffer.rank, item_size(dtype));
    if (!memory.is_none()) given.value = std::string_view(memory.cast<py::bytes>());
    if (!memory.is_none() && given.value.size() != static_cast<size_t>(bytes)) {
      throw py::value_error("jwarp: a value has another number of bytes than its dtype and shape");
    }
    given.offset = own_bytes_;
    own_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  static void put(const Driver& cuda, Address to, std::string_view bytes, Stream stream, const std::string& who) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    if (bytes.size() == 1) {
      cuda.check(cuda.fill_bytes(to, static_cast<uint8_t>(word), 1, stream), "cuMemsetD8Async", who);
    } else if (bytes.size() == 2) {
      cuda.check(cuda.fill_halves(to, static_cast<uint16_t>(word), 1, stream), "cuMemsetD16Async", who);
    } else {
      cuda.check(cuda.fill_words(to, word, 1, stream), "cuMemsetD32Async", who);
    }
  }

  std::vector<Given> given_;
  std::vector<void*> pointers_;
  int64_t operand_count_;
  int64_t own_bytes_ = 0;
};

// Objects, and the event after which nothing on the GPU uses their memory. Touched with the GIL only, and
// never destroyed: the interpreter may be gone by then.
struct Kept {
  Event event;
  py::object objects;
};

std::deque<Kept>& all_kept() {
  static auto* const instance = new std::deque<Kept>;
  return *instance;
}

void let_go_of_ended(const Driver& cuda) {
  std::deque<Kept> ended;
  for (auto kept = all_kept().begin(); kept != all_kept().end();) {
    const Result result = cuda.event_query(kept->event);
    if (result == kNotReady || result >= kFirstOfCaptures) {
      ++kept;
      continue;
    }
    // It has ended, if only because something went wrong.
    cuda.event_destroy(kept->event);
    ended.push_back(std::move(*kept));
    kept = all_kept().erase(kept);
  }
}

Event end_of_launch(const Driver& cuda, Stream stream, const std::string& who) {
  Event event = nullptr;
  cuda.check(cuda.event_create(&event, kWithoutTiming), "cuEventCreate", who);
  const Result result = cuda.event_record(event, stream);
  if (result != 0) cuda.event_destroy(event);
  cuda.check(result, "cuEventRecord", who);
  return event;
}

}  // namespace

DeviceLaunch::DeviceLaunch(const std::string& kernel, const std::string& entry, const py::bytes& image,
                           const py::buffer& plan, const py::buffer& launch, int64_t block, int64_t shared,
                           int64_t per_sm, std::vector<int64_t> grid, const std::string& failures,
                           int64_t heap)
    : who_("kernel '" + kernel + "'"),
      site_({.kernel = kernel,
             .entry = entry,
             .image = std::string_view(image),
             .block = block,
             .shared = shared,
             .per_sm = per_sm,
             .grid = std::move(grid),
             .failures = failures,
             .heap = heap},
            decoded<Plan>(plan, "a plan"), decoded<Launch>(launch, "a launch"), !failures.empty()) {}

void DeviceLaunch::run(const py::sequence& arguments, uintptr_t handle, Device device, const py::object& keep) {
  Arguments given(arguments, site_.launch().result_count);
  const Driver& cuda = driver();
  const auto stream = reinterpret_cast<Stream>(handle);
  Event event = nullptr;
  {
    const WithoutGil no_gil;
    std::optional<CurrentContext> of_device;
    if (device >= 0) of_device.emplace(cuda, primary_context(device, who_), who_);
    const CurrentContext current(cuda, stream, who_);
    Device found = 0;
    cuda.check(cuda.context_get_device(&found), "cuCtxGetDevice", who_);
    if (device >= 0 && found != device) {
      invalid(who_ + ": its arrays are on CUDA device " + std::to_string(device) +
              ", and the stream is one of device " + std::to_string(found));
    }
    {
      const StreamMemory memory(cuda, given.own_bytes(), stream, who_);
      given.place(cuda, memory.get(), stream, who_);
      site_.run(given.view(), stream);
    }
    if (keep.is_none()) {
      cuda.check(cuda.stream_synchronize(stream), "cuStreamSynchronize", who_);
    } else if (current.is_capturing()) {
      return;  // it runs whenever its graph does, which is the caller's to know
    } else {
      event = end_of_launch(cuda, stream, who_);
    }
  }
  if (event != nullptr) all_kept().push_back({event, keep});
  let_go_of_ended(cuda);
}

DeviceMemory::DeviceMemory(int64_t bytes, uintptr_t stream, Device device, std::string who)
    : who_(std::move(who)), stream_(reinterpret_cast<Stream>(stream)), device_(device) {
  if (bytes <= 0) return;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, who_), who_);
  cuda.check(cuda.memory_alloc_on(&address_, static_cast<size_t>(bytes), stream_), "cuMemAllocAsync", who_);
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  try {
    const CurrentContext of_device(driver(), primary_context(device_, who_), who_);
    driver().memory_free_on(address_, stream_);
  } catch (const Fault&) {
    // The device is gone, and its memory with it.
  }
}

void DeviceMemory::fill(uintptr_t target, uintptr_t source, int64_t bytes) const {
  if (bytes <= 0) return;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, who_), who_);
  const auto count = static_cast<size_t>(bytes);
  if (source == 0) {
    cuda.check(cuda.fill_bytes(target, 0, count, stream_), "cuMemsetD8Async", who_);
  } else {
    cuda.check(cuda.copy_on_device(target, source, count, stream_), "cuMemcpyDtoDAsync", who_);
  }
}

void DeviceMemory::set(uintptr_t target, uint32_t pattern, int64_t width, int64_t count) const {
  if (count <= 0) return;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, who_), who_);
  const auto times = static_cast<size_t>(count);
  if (width == 1) {
    cuda.check(cuda.fill_bytes(target, static_cast<uint8_t>(pattern), times, stream_), "cuMemsetD8Async", who_);
  } else if (width == 2) {
    cuda.check(cuda.fill_halves(target, static_cast<uint16_t>(pattern), times, stream_), "cuMemsetD16Async", who_);
  } else if (width == 4) {
    cuda.check(cuda.fill_words(target, pattern, times, stream_), "cuMemsetD32Async", who_);
  } else {
    throw py::value_error("jwarp: a pattern has 1, 2 or 4 bytes");
  }
}

void DeviceMemory::upload(uintptr_t target, const py::buffer& source) const {
  const py::buffer_info given = source.request();
  const int64_t bytes = given.size * given.itemsize;
  if (bytes <= 0) return;
  const WithoutGil no_gil;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, who_), who_);
  cuda.check(cuda.copy_to_device(target, given.ptr, static_cast<size_t>(bytes), stream_), "cuMemcpyHtoDAsync", who_);
  cuda.check(cuda.stream_synchronize(stream_), "cuStreamSynchronize", who_);
}

void DeviceMemory::download(const py::buffer& target, uintptr_t source) const {
  const py::buffer_info given = target.request(true);
  const int64_t bytes = given.size * given.itemsize;
  if (bytes <= 0) return;
  const WithoutGil no_gil;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, who_), who_);
  cuda.check(cuda.copy_to_host(given.ptr, source, static_cast<size_t>(bytes), stream_), "cuMemcpyDtoHAsync", who_);
  cuda.check(cuda.stream_synchronize(stream_), "cuStreamSynchronize", who_);
}

void DeviceMemory::wait() const {
  const WithoutGil no_gil;
  const Driver& cuda = driver();
  const CurrentContext of_device(cuda, primary_context(device_, who_), who_);
  cuda.check(cuda.stream_synchronize(stream_), "cuStreamSynchronize", who_);
}

}  // namespace jwarp::gpu
