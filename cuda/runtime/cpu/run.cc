// Initial contents, choice of version, and the walk over batch elements, rows and columns.
#include "cpu/run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "core/dtype.h"
#include "core/fault.h"
#include "cpu/first_failure.h"
#include "cpu/float_state.h"
#include "cpu/pages.h"
#include "cpu/sums.h"
#include "cpu/tape.h"

namespace jwarp::cpu {
namespace {

// Waking a thread takes 20 to 50 microseconds, so less work than this is done sooner alone.
constexpr double kWorthSharing = 60e3;  // nanoseconds
constexpr double kWorthOneHelper = 20e3;
// Cold caches make the first rows slow; no decision before so much time has been seen.
constexpr double kProbeTime = 5e3;
constexpr double kShortestClaim = 5e3;
constexpr double kLongestClaim = 200e3;
constexpr int64_t kClaimsPerThread = 8;
constexpr int64_t kFewThreads = 64;  // not worth a look at the clock
constexpr int64_t kFillChunk = int64_t{1} << 20;
constexpr int64_t kLargeFill = 4 * kFillChunk;

struct Work {
  const Plan& plan;
  const CpuLayout& layout;
  void* const* base;
  const Copies* copies;  // null where chunks need none
  Entry fast;
  Entry checked;
  FirstFailure& failure;
  std::atomic<double>& granule_time;  // nanoseconds, in the last launch that was shared

  Entry entry(Version version) const { return version == Version::kFast ? fast : checked; }
};

// Decides, batch element by batch element, which version runs and with which symbols.
class Chooser {
 public:
  Chooser(const Plan& plan, const CpuLayout& layout)
      : plan_(plan), layout_(layout), own_(plan.clauses_use_scalars ? plan.symbol_count : 0) {
    if (plan.clauses_use_scalars) std::copy(layout.symbols.begin(), layout.symbols.end(), own_.data());
  }

  Version choose(void* const* operands) {
    if (!plan_.clauses_use_scalars) return layout_.clauses_hold ? Version::kFast : Version::kChecked;
    for (size_t p = 0; p < plan_.parameters.size(); ++p) {
      const Parameter& parameter = plan_.parameters[p];
      if (parameter.is_array || parameter.first_symbol < 0) continue;
      own_[parameter.first_symbol] = read_symbol(parameter.dtype, operands[p]);
    }
    return plan_.clauses_hold(own_.data()) ? Version::kFast : Version::kChecked;
  }

  const int64_t* symbols() const {
    return plan_.clauses_use_scalars ? own_.data() : layout_.symbols.data();
  }

 private:
  const Plan& plan_;
  const CpuLayout& layout_;
  SmallArray<int64_t, 64> own_;
};

// Threads are counted through all repeats, but for each batch element anew.
int64_t first_thread(const CpuLayout& layout, int64_t number) {
  return number / layout.batch_items * layout.rows * layout.columns;
}

// Runs the granules [begin, end) on the arrays at `base`, in as few rectangles as they make up.
void run_granules(const Work& work, void* const* base, int64_t begin, int64_t end) {
  const CpuLayout& layout = work.layout;
  const DefaultFloatState float_state;
  const WorkerTapes tapes;

  int64_t part = begin % layout.row_granules;
  const int64_t row_number = begin / layout.row_granules;
  int64_t row = row_number % layout.rows;
  int64_t number = row_number / layout.rows;  // of the batch element, counted on over the repeats
  Cursor cursor(layout, base, number);
  Chooser chooser(work.plan, layout);
  Entry entry = work.entry(chooser.choose(cursor.operands()));
  Frame frame = {
      .operands = cursor.operands(),
      .symbols = chooser.symbols(),
      .fill = layout.fill,
      .first_thread = first_thread(layout, number),
      .tapes = tapes.get(),
  };

  while (begin < end && !work.failure.precedes(begin)) {
    const int64_t granule = begin;
    frame.row_begin = row;
    if (part == 0 && end - begin >= layout.row_granules) {
      const int64_t rows = std::min(layout.rows - row, (end - begin) / layout.row_granules);
      frame.column_begin = 0;
      frame.column_end = layout.columns;
      row += rows;
      begin += rows * layout.row_granules;
      frame.row_end = row;
    } else {
      const int64_t last = std::min(layout.row_granules, part + (end - begin));
      frame.column_begin = part * layout.granule_columns;
      frame.column_end = last == layout.row_granules ? layout.columns : last * layout.granule_columns;
      frame.row_end = row + 1;
      begin += last - part;
      part = last % layout.row_granules;
      row += part == 0;
    }
    entry(&frame);
    if (frame.failed_site != 0) return work.failure.note(frame, granule, number % layout.batch_items);
    if (tapes.get()->failed != 0) throw std::bad_alloc();
    if (row == layout.rows && begin < end) {
      row = 0;
      cursor.next();
      frame.first_thread = first_thread(layout, ++number);
      entry = work.entry(chooser.choose(cursor.operands()));
    }
  }
}

// Runs the granules [begin, end), each chunk's on the arrays that belong to it.
void run_span(const Work& work, int64_t begin, int64_t end) {
  if (work.copies == nullptr) return run_granules(work, work.base, begin, end);
  const CpuLayout& layout = work.layout;
  SmallArray<void*, 16> base(layout.operands.size());
  std::copy(work.base, work.base + layout.operands.size(), base.data());
  for (int64_t chunk = layout.chunk_of(begin); begin < end; ++chunk) {
    const int64_t stop = std::min(end, layout.chunk_begin(chunk + 1));
    if (begin == layout.chunk_begin(chunk)) work.copies->clear(chunk);
    work.copies->point(chunk, base.data());
    run_granules(work, base.data(), begin, stop);
    begin = stop;
  }
}

// The remaining work of a launch when its threads begin to share it.
struct Rest {
  const Work& work;
  int64_t done;  // granules
  std::atomic<int64_t>* time = nullptr;  // nanoseconds, of all threads together
};

double nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

void run_chunks(const void* context, int64_t begin, int64_t end) {
  const Rest& rest = *static_cast<const Rest*>(context);
  const CpuLayout& layout = rest.work.layout;
  const auto start = std::chrono::steady_clock::now();
  run_span(rest.work, std::max(rest.done, layout.chunk_begin(begin)), layout.chunk_begin(end));
  if (rest.time != nullptr) rest.time->fetch_add(static_cast<int64_t>(nanoseconds_since(start)));
}

bool runs_fast_only(const Work& work) {
  return !work.plan.clauses_use_scalars && work.layout.clauses_hold;
}

// A version that some batch element needs and that is not compiled.
std::optional<Version> find_missing(const Work& work) {
  if (work.fast != nullptr && (work.checked != nullptr || runs_fast_only(work))) return std::nullopt;
  const CpuLayout& layout = work.layout;
  Chooser chooser(work.plan, layout);
  Cursor cursor(layout, work.base, 0);
  const int64_t items = work.plan.clauses_use_scalars ? layout.batch_items : 1;
  for (int64_t item = 0; item < items; ++item, cursor.next()) {
    const Version version = chooser.choose(cursor.operands());
    if (work.entry(version) == nullptr) return version;
  }
  return std::nullopt;
}

// Shares what is left, in claims long enough to be worth it and short enough to end together.
void share_rest(Pool& pool, int64_t threads, const Work& work, int64_t done, double granule_time) {
  const CpuLayout& layout = work.layout;
  const int64_t first = layout.chunk_of(done);
  const int64_t rest = layout.chunks - first;
  const double granules_per_chunk = static_cast<double>(layout.granules) / static_cast<double>(layout.chunks);
  const double per_chunk = std::max(granule_time * granules_per_chunk, 0.01);
  const int64_t shortest = 1 + static_cast<int64_t>(kShortestClaim / per_chunk);
  const int64_t longest = 1 + static_cast<int64_t>(kLongestClaim / per_chunk);
  const double useful_helpers = per_chunk * static_cast<double>(rest) / kWorthOneHelper;
  const int64_t helpers = static_cast<int64_t>(std::min(static_cast<double>(threads - 1), useful_helpers));
  std::atomic<int64_t> time{0};
  const Rest context{work, done, &time};
  share(pool, helpers, first, layout.chunks, {shortest, longest}, run_chunks, &context);
  const auto total = static_cast<double>(time.load());
  work.granule_time.store(total / static_cast<double>(layout.granules - done), std::memory_order_relaxed);
}

// Shares a launch that was worth it the last time. Else starts alone, in stretches that double, and shares the
// rest as soon as that is seen to pay.
void run_work(const Work& work, Pool& pool) {
  const int64_t granules = work.layout.granules;
  const int64_t chunks = work.layout.chunks;
  if (chunks > 1 && shares_eagerly()) {
    const int64_t threads = thread_count(pool);
    const Rest all{work, 0};
    share(pool, threads - 1, 0, chunks, {1, chunks / (threads * kClaimsPerThread)}, run_chunks, &all);
    return;
  }
  const double known = work.granule_time.load(std::memory_order_relaxed);
  if (chunks > 1 && known * static_cast<double>(granules) >= kWorthSharing && thread_count(pool) > 1) {
    return share_rest(pool, thread_count(pool), work, 0, known);
  }
  const bool small_work = work.plan.column_group > 1;  // a block's is not
  const int64_t first_stretch = small_work ? std::max<int64_t>(1, kFewThreads / work.layout.columns) : 1;
  if (granules <= first_stretch || chunks == 1) return run_span(work, 0, granules);
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  for (int64_t done = 0, stretch = first_stretch; done < granules; stretch *= 2) {
    stretch = std::min(stretch, granules - done);
    run_span(work, done, done + stretch);
    done += stretch;
    const double before = elapsed;
    elapsed = nanoseconds_since(start);
    const double granule_time = (elapsed - before) / static_cast<double>(stretch);
    const double rest_time = granule_time * static_cast<double>(granules - done);
    if (elapsed < kProbeTime || rest_time < kWorthSharing) continue;
    const int64_t threads = thread_count(pool);
    if (threads == 1) return run_span(work, done, granules);
    return share_rest(pool, threads, work, done, granule_time);
  }
}

void run_with_copies(Work& work, Pool& pool) {
  std::optional<Copies> copies;
  try {
    copies.emplace(work.layout, work.base, pool);
  } catch (const std::bad_alloc&) {
    return run_span(work, 0, work.layout.granules);  // all in one chunk
  }
  work.copies = &*copies;
  run_work(work, pool);
  copies->merge(pool);
}

struct Fill {
  char* data;
  int64_t bytes;
};

void fill_chunks(const void* context, int64_t begin, int64_t end) {
  const Fill& fill = *static_cast<const Fill*>(context);
  const int64_t first = begin * kFillChunk;
  std::memset(fill.data + first, 0, std::min(fill.bytes, end * kFillChunk) - first);
}

void fill_zeros(void* data, int64_t bytes, Pool& pool) {
  const Fill fill{static_cast<char*>(data), bytes};
  const int64_t chunks = bytes / kFillChunk + (bytes % kFillChunk != 0);
  if (bytes > kLargeFill) {
    share(pool, thread_count(pool) - 1, 0, chunks, Claims{}, fill_chunks, &fill);
  } else if (bytes > 0) {
    fill_chunks(&fill, 0, chunks);
  }
}

void set_initial_contents(const CpuLayout& layout, const Buffers& buffers, Pool& pool) {
  for (const CpuLayout::Operand& operand : layout.operands) {
    const Binding& binding = operand.binding;
    if (binding.role == Role::kZeros) prepare_pages(buffers.result(binding.result).data, operand.bytes, pool);
    if (operand.needs_zeros) fill_zeros(buffers.result(binding.result).data, operand.bytes, pool);
    if (binding.role == Role::kInOut && operand.bytes > 0) {
      const void* source = buffers.operand(binding.operand).data;
      void* target = buffers.result(binding.result).data;
      if (source != target) std::memmove(target, source, operand.bytes);
    }
  }
}

// Clauses are decided once, so what they read must stay: a damaged call may share its memory with a result.
void require_constant_scalars(const Plan& plan, const CpuLayout& layout, void* const* base) {
  const auto begin = [base](size_t p) { return reinterpret_cast<uintptr_t>(base[p]); };
  const auto end = [&](size_t p) { return begin(p) + static_cast<uintptr_t>(layout.operands[p].bytes); };
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    if (plan.parameters[s].is_array || plan.parameters[s].first_symbol < 0) continue;
    for (size_t p = 0; p < plan.parameters.size(); ++p) {
      const bool is_result = layout.operands[p].binding.result >= 0;
      if (is_result && begin(p) < end(s) && begin(s) < end(p)) {
        invalid("parameter " + std::to_string(s) + " lies in the memory of result " +
                std::to_string(layout.operands[p].binding.result));
      }
    }
  }
}

bool has_clauses_on_scalars(const Plan& plan, const CpuLayout& layout) {
  return plan.clauses_use_scalars && layout.granules > 0;
}

}  // namespace

std::optional<Version> CallSite::run(const Buffers& buffers, Pool& pool) {
  std::unique_ptr<CpuLayout> own;
  const CpuLayout& layout = fit(buffers, own);

  SmallArray<void*, 16> base(layout.operands.size());
  for (size_t p = 0; p < layout.operands.size(); ++p) {
    base[p] = buffers.of(layout.operands[p].binding).data;
  }
  if (has_clauses_on_scalars(kernel_.plan, layout)) require_constant_scalars(kernel_.plan, layout, base.data());
  return run_on(layout, base.data(), pool, [&] { set_initial_contents(layout, buffers, pool); });
}

template <typename Prepare>
std::optional<Version> CallSite::run_on(const CpuLayout& layout, void* const* base, Pool& pool, Prepare prepare) {
  FirstFailure failure;
  Work work = {
      .plan = kernel_.plan,
      .layout = layout,
      .base = base,
      .copies = nullptr,
      .fast = kernel_.fast.load(std::memory_order_acquire),
      .checked = kernel_.checked.load(std::memory_order_acquire),
      .failure = failure,
      .granule_time = granule_time_,
  };
  if (layout.granules == 0) {
    prepare();
    return std::nullopt;
  }
  // The scalars that clauses read are never results, so this may come before the copies.
  if (const auto missing = find_missing(work)) return missing;
  prepare();
  if (layout.copied.empty()) {
    run_work(work, pool);
  } else {
    run_with_copies(work, pool);
  }
  failure.raise(kernel_, layout);
  return std::nullopt;
}

const CpuLayout& CallSite::fit(const Buffers& buffers, std::unique_ptr<CpuLayout>& own) {
  CpuLayout* cached = cached_.load(std::memory_order_acquire);
  if (cached != nullptr && cached->fits(buffers)) return *cached;
  own = lay_out<CpuLayout>(kernel_.plan, launch_, buffers);
  if (cached == nullptr && cached_.compare_exchange_strong(cached, own.get(), std::memory_order_acq_rel)) {
    return *own.release();
  }
  return *own;
}

FixedCall::FixedCall(CallSite& site, const Buffers& buffers, Pool& pool)
    : site_(site), layout_(site.fit(buffers, own_)), base_(layout_.operands.size()) {
  for (size_t p = 0; p < base_.size(); ++p) {
    const CpuLayout::Operand& operand = layout_.operands[p];
    const Binding& binding = operand.binding;
    base_[p] = buffers.of(binding).data;
    if (binding.role == Role::kZeros) prepare_pages(base_[p], operand.bytes, pool);
    if (operand.needs_zeros && operand.bytes > 0) starts_.push_back({base_[p], nullptr, operand.bytes});
    if (binding.role == Role::kInOut && operand.bytes > 0) {
      const void* source = buffers.operand(binding.operand).data;
      if (source != base_[p]) starts_.push_back({base_[p], source, operand.bytes});
    }
  }
  if (has_clauses_on_scalars(site.kernel_.plan, layout_)) {
    require_constant_scalars(site.kernel_.plan, layout_, base_.data());
  }
}

std::optional<Version> FixedCall::run(Pool& pool) {
  return site_.run_on(layout_, base_.data(), pool, [this, &pool] {
    for (const Start& start : starts_) {
      if (start.source == nullptr) {
        fill_zeros(start.target, start.bytes, pool);
      } else {
        std::memmove(start.target, start.source, start.bytes);
      }
    }
  });
}

}  // namespace jwarp::cpu
