// A libFuzzer target: descriptions of launches and plans that may be damaged, decoded and laid out for random buffers.
//
// What is decoded is either refused by a Fault or consistent; nothing else may happen. tests/native/fuzz.sh builds it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/dtype.h"
#include "core/fault.h"
#include "core/launch.h"
#include "core/plan.h"
#include "cpu/layout.h"

namespace {

using jwarp::Fault;
using jwarp::Launch;
using jwarp::Plan;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not consistent: %s\n", what);
  std::abort();
}

// Numbers from bytes: 0 to 191 stand for themselves, 192 to 254 for -63 to -1, and after 255 come the eight bytes of one.
std::vector<int64_t> numbers_of(const uint8_t* data, size_t size) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < size; ++i) {
    int64_t number = data[i] < 192 ? data[i] : static_cast<int64_t>(data[i]) - 255;
    if (data[i] == 255 && i + 8 < size) {
      std::memcpy(&number, data + i + 1, 8);
      i += 8;
    }
    numbers.push_back(number);
  }
  return numbers;
}

// Buffers as the plan and the launch ask for, whose extents are taken from `extents` in turn.
class Given {
 public:
  Given(const Plan& plan, const Launch& launch, const std::vector<int64_t>& batch, const std::vector<int64_t>& extents)
      : extents_(extents) {
    operands_.resize(launch.operand_count + (launch.is_symbolic() ? 1 : 0));
    results_.resize(launch.result_count);
    for (size_t p = 0; p < std::min(plan.parameters.size(), launch.bindings.size()); ++p) {
      const jwarp::Binding& binding = launch.bindings[p];
      std::vector<int64_t> dims;
      for (size_t k = 0; k < batch.size(); ++k) {
        if (binding.has_axis(static_cast<int64_t>(k))) dims.push_back(batch[k]);
      }
      for (int64_t k = 0; k < plan.parameters[p].rank; ++k) dims.push_back(next());
      if (binding.operand >= 0) operands_[binding.operand] = {dims, plan.parameters[p].dtype};
      if (binding.result >= 0) results_[binding.result] = {dims, plan.parameters[p].dtype};
    }
    if (launch.is_symbolic()) {
      Shape& sizes = operands_.back();
      sizes.dtype = XLA_FFI_DataType_F32;
      sizes.dims = {0};
      for (int64_t k = 0; k < launch.variable_count(); ++k) sizes.dims.push_back(next());
    }
    for (auto* shapes : {&operands_, &results_}) {
      for (Shape& shape : *shapes) {
        XLA_FFI_Buffer buffer{};
        buffer.dtype = static_cast<XLA_FFI_DataType>(shape.dtype);
        buffer.rank = static_cast<int64_t>(shape.dims.size());
        buffer.dims = shape.dims.data();
        buffers_.push_back(buffer);
      }
    }
    for (XLA_FFI_Buffer& buffer : buffers_) pointers_.push_back(&buffer);
  }

  jwarp::Buffers buffers() const {
    const auto operands = static_cast<int64_t>(operands_.size());
    return {pointers_.data(), operands, pointers_.data() + operands, static_cast<int64_t>(results_.size())};
  }

 private:
  struct Shape {
    std::vector<int64_t> dims;
    int64_t dtype = XLA_FFI_DataType_F32;
  };

  int64_t next() { return extents_.empty() ? 3 : extents_[taken_++ % extents_.size()]; }

  const std::vector<int64_t>& extents_;
  size_t taken_ = 0;
  std::vector<Shape> operands_, results_;
  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<void*> pointers_;
};

void check(const jwarp::cpu::CpuLayout& layout, const Plan& plan) {
  require(layout.threads >= 0 && layout.granules >= 0 && layout.chunks >= 0, "counts are not negative");
  require((layout.threads == 0) == (layout.granules == 0), "threads have granules");
  require(layout.operands.size() == plan.parameters.size(), "each parameter has an operand");
  for (const int64_t p : layout.copied) {
    require(p >= 0 && p < static_cast<int64_t>(plan.parameters.size()) && plan.parameters[p].is_sum, "sums are copied");
  }
  if (layout.granules == 0) return;
  require(layout.chunks >= 1 && layout.chunks <= std::max<int64_t>(layout.granules, 1), "chunks are not empty");
  require(layout.chunk_begin(0) == 0 && layout.chunk_begin(layout.chunks) == layout.granules, "chunks cover all");
  for (const int64_t granule : {int64_t{0}, layout.granules / 2, layout.granules - 1}) {
    const int64_t chunk = layout.chunk_of(granule);
    require(chunk >= 0 && chunk < layout.chunks, "a granule has a chunk");
    require(layout.chunk_begin(chunk) <= granule && granule < layout.chunk_begin(chunk + 1), "it is that one");
  }
  std::vector<int64_t> symbols = layout.symbols;
  plan.limit_scalars(symbols.data());
  plan.clauses_hold(layout.symbols.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  // The first two bytes tell where the plan ends and where the launch does; extents follow.
  const std::vector<int64_t> all = numbers_of(data + 2, size - 2);
  const size_t plan_end = std::min<size_t>(data[0], all.size());
  const size_t launch_end = std::min<size_t>(plan_end + data[1], all.size());
  const std::vector<int64_t> extents(all.begin() + static_cast<int64_t>(launch_end), all.end());
  try {
    const Plan plan(all.data(), static_cast<int64_t>(plan_end));
    const Launch launch(all.data() + plan_end, static_cast<int64_t>(launch_end - plan_end));
    require(plan.same_numbers(plan) && launch.same_numbers(launch), "a thing is itself");
    // Of a symbolic launch, the extents of batches are known with its variables only.
    std::vector<int64_t> batch = launch.batch;
    if (launch.is_symbolic()) {
      std::vector<int64_t> variables;
      for (int64_t k = 0; k < launch.variable_count(); ++k) {
        variables.push_back(extents.empty() ? 3 : extents[static_cast<size_t>(k) % extents.size()]);
      }
      batch = launch.with_variables(variables.data()).batch;
    }
    const Given given(plan, launch, batch, extents);
    const auto layout = jwarp::lay_out<jwarp::cpu::CpuLayout>(plan, launch, given.buffers());
    require(layout->fits(given.buffers()), "a layout fits its own buffers");
    check(*layout, plan);
  } catch (const Fault&) {
  }
  return 0;
}
