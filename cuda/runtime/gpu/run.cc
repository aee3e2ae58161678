// Initial contents, pointers, and the launch itself.
#include "gpu/run.h"

#include <algorithm>
#include <utility>

#include "core/failed_check.h"
#include "core/fault.h"
#include "core/small_array.h"
#include "gpu/contexts.h"

namespace jwarp::gpu {
namespace {

constexpr int64_t kMaxBlock = 1024;
constexpr int64_t kMaxShared = int64_t{1} << 30;
constexpr int64_t kMaxPerSm = 1 << 16;
constexpr int64_t kMaxHeap = int64_t{1} << 40;
constexpr int64_t kMaxGrid[] = {INT32_MAX, 65535};
constexpr size_t kMaxWords = 32764 / sizeof(int64_t);  // what the driver takes as parameters of a kernel
constexpr uint64_t kNoFailure = UINT64_MAX;

void require(bool right, const Code& code, const char* name, int64_t value) {
  if (right) return;
  damaged("kernel '" + code.kernel + "'", std::string("the call is damaged: its ") + name + " is " + std::to_string(value));
}

const Code& checked(const Code& code, const Plan& plan) {
  require(code.block >= 1 && code.block <= kMaxBlock, code, "number of threads of a block", code.block);
  require(code.shared >= 0 && code.shared <= kMaxShared, code, "size of shared memory", code.shared);
  require(code.heap >= 0 && code.heap <= kMaxHeap, code, "size of the heap", code.heap);
  require(code.per_sm >= 0 && code.per_sm <= kMaxPerSm, code, "number of blocks for each multiprocessor", code.per_sm);
  const size_t axes = code.grid.size();
  require(axes <= kOwnAxes, code, "number of grid axes", static_cast<int64_t>(axes));
  for (size_t k = 0; k < axes; ++k) {
    const int64_t least = axes == kOwnAxes ? 0 : 1;
    require(code.grid[k] >= least && code.grid[k] <= kMaxGrid[k], code, "grid along an axis", code.grid[k]);
  }
  if (count_words(plan) > kMaxWords) {
    invalid("kernel '" + code.kernel + "': its " + std::to_string(plan.parameters.size()) +
            " parameters are more than CUDA passes to a kernel");
  }
  return code;
}

std::vector<std::string> split_texts(std::string_view joined) {
  std::vector<std::string> texts;
  while (!joined.empty()) {
    const size_t end = std::min(joined.find('\0'), joined.size());
    texts.emplace_back(joined.substr(0, end));
    joined.remove_prefix(std::min(end + 1, joined.size()));
  }
  return texts;
}

Address address_of(const XLA_FFI_Buffer& buffer) { return reinterpret_cast<Address>(buffer.data); }

// A word of device memory for the time of a run; none for a kernel without checks.
class FailureWord {
 public:
  FailureWord(DeviceContext& where, const Driver& driver, const std::string& who, bool needed)
      : context_(where), word_(needed ? where.take_word(driver, who) : 0) {}
  ~FailureWord() {
    if (word_ != 0) context_.give_word(word_);
  }
  FailureWord(const FailureWord&) = delete;
  FailureWord& operator=(const FailureWord&) = delete;

  Address get() const { return word_; }

 private:
  DeviceContext& context_;
  const Address word_;
};

}  // namespace

CallSite::CallSite(const Code& code, Plan plan, Launch launch, bool checks)
    : who_("kernel '" + checked(code, plan).kernel + "'"),
      kernel_(find_kernel(code.image, code.entry, who_)),
      block_(code.block),
      shared_(code.shared),
      per_sm_(code.per_sm),
      heap_(code.heap),
      grid_(code.grid),
      failures_(split_texts(code.failures)),
      checks_(checks),
      plan_(std::move(plan)),
      launch_(std::move(launch)) {}

CallSite::~CallSite() {
  delete cached_.load();
  for (Ready* ready = ready_.load(); ready != nullptr;) delete std::exchange(ready, ready->next);
}

template <typename Call>
void CallSite::placed(const Call& call) const {
  try {
    call();
  } catch (const DeviceFault& fault) {
    throw fault.of(who_, kernel_.place());
  }
}

void CallSite::load() {
  placed([this] { kernel_.load(who_); });
}

void CallSite::set_up(Stream stream) {
  placed([=] {
    const CurrentContext context(driver(), stream, who_);
    ready_on(context.get());
  });
}

void CallSite::run(const Buffers& buffers, Stream stream) {
  placed([&] { put(buffers, stream); });
}

DeviceContext& CallSite::ready_on(Context context) {
  Ready* const first = ready_.load(std::memory_order_acquire);
  for (const Ready* ready = first; ready != nullptr; ready = ready->next) {
    if (ready->where->context == context) return *ready->where;
  }
  DeviceContext& where = device_context(context, who_);
  if (heap_ > 0) where.enlarge_heap(driver(), heap_);
  kernel_.set_up(where.device, shared_, who_);
  // Two threads may both add it, which does no harm.
  auto* const added = new Ready{&where, first};
  while (!ready_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
  }
  return where;
}

void CallSite::put(const Buffers& buffers, Stream stream) {
  const CurrentContext context(driver(), stream, who_);
  DeviceContext& where = ready_on(context.get());
  std::unique_ptr<GpuLayout> own;
  const GpuLayout& layout = fit(buffers, own);
  set_initial_contents(layout, buffers, stream);
  launch_all(layout, buffers, where, stream);
}

const GpuLayout& CallSite::fit(const Buffers& buffers, std::unique_ptr<GpuLayout>& own) {
  GpuLayout* cached = cached_.load(std::memory_order_acquire);
  if (cached != nullptr && cached->fits(buffers)) return *cached;
  own = lay_out<GpuLayout>(plan_, launch_, buffers, block_, grid_);
  if (cached == nullptr && cached_.compare_exchange_strong(cached, own.get(), std::memory_order_acq_rel)) {
    return *own.release();
  }
  return *own;
}

void CallSite::set_initial_contents(const GpuLayout& layout, const Buffers& buffers, Stream stream) const {
  const Driver& cuda = driver();
  for (const Layout::Operand& operand : layout.operands) {
    if (operand.bytes == 0 || operand.binding.result < 0) continue;
    const Address target = address_of(buffers.of(operand.binding));
    const auto bytes = static_cast<size_t>(operand.bytes);
    if (operand.needs_zeros) cuda.check(cuda.fill_bytes(target, 0, bytes, stream), "cuMemsetD8Async", who_);
    if (operand.binding.role != Role::kInOut) continue;
    const Address source = address_of(buffers.operand(operand.binding.operand));
    if (source == target) continue;
    cuda.check(cuda.copy_on_device(target, source, bytes, stream), "cuMemcpyDtoDAsync", who_);
  }
}

void CallSite::launch_all(const GpuLayout& layout, const Buffers& buffers, DeviceContext& where, Stream stream) const {
  const Driver& cuda = driver();
  const size_t count = layout.operands.size();
  SmallArray<int64_t, 512> words(layout.words.size());
  std::copy(layout.words.begin(), layout.words.end(), words.data());
  int64_t* const pointers = words.data() + layout.first_pointer;
  for (size_t p = 0; p < count; ++p) {
    pointers[p] = static_cast<int64_t>(address_of(buffers.of(layout.operands[p].binding)));
  }
  const FailureWord noted(where, cuda, who_, checks_);
  words[kFailure] = static_cast<int64_t>(noted.get());

  LaunchConfig config = {};
  std::copy(layout.grid, layout.grid + 3, config.grid);
  const int64_t most = grid_.size() < kOwnAxes ? per_sm_ * where.multiprocessors : 0;
  if (most > 0 && config.grid[0] > most) config.grid[0] = static_cast<unsigned>(most);
  config.block[0] = static_cast<unsigned>(block_);
  config.block[1] = config.block[2] = 1;
  config.shared_bytes = static_cast<unsigned>(shared_);
  config.stream = stream;
  void* parameters[] = {words.data()};
  // The driver takes a kernel of a library for a function of the current context.
  const auto function = reinterpret_cast<Function>(kernel_.handle());
  for (int64_t number = 0; number < layout.launches; ++number) {
    if (checks_) cuda.check(cuda.fill_bytes(noted.get(), 0xff, sizeof(uint64_t), stream), "cuMemsetD8Async", who_);
    cuda.check(cuda.launch(&config, function, parameters, nullptr), "cuLaunchKernelEx", who_);
    if (checks_) check_failure(layout, number, noted.get(), stream);
    if (number + 1 < layout.launches) layout.advance(number, pointers);
  }
}

void CallSite::check_failure(const GpuLayout& layout, int64_t number, Address noted, Stream stream) const {
  const Driver& cuda = driver();
  uint64_t word = kNoFailure;
  cuda.check(cuda.copy_to_host(&word, noted, sizeof(word), stream), "cuMemcpyDtoHAsync", who_);
  cuda.check(cuda.stream_synchronize(stream), "cuStreamSynchronize", who_);
  if (word == kNoFailure || layout.threads == 0) return;
  const int64_t thread = static_cast<int64_t>(word >> kSiteBits);
  const size_t site = (word & ((uint64_t{1} << kSiteBits) - 1)) - 1;
  const std::string text = site < failures_.size() ? failures_[site] : "a check failed";
  const int64_t threads = layout.words[kThreads], items = layout.words[kItems];
  raise_failed_check(who_ + ": " + text, layout, plan_.tid_dims, thread % threads,
                     number * items + thread / threads % items);
}

}  // namespace jwarp::gpu
