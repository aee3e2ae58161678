// Formats, codes, and where the members of structs are.
#include "python/wire_format.h"

#include <cstddef>

#include "core/dtype.h"
#include "core/formula.h"
#include "core/launch.h"
#include "core/plan.h"
#include "cpu/entry.h"
#include "cpu/tape.h"
#include "gpu/layout.h"

namespace jwarp {
namespace {

template <typename E>
int64_t number(E value) {
  return static_cast<int64_t>(value);
}

}  // namespace

std::map<std::string, std::map<std::string, int64_t>> wire_format() {
#define OFFSET(type, member) {#member, offsetof(type, member)}
  using cpu::Frame;
  using cpu::Tape;
  using cpu::Tapes;
  using Step = Formula::Operation;
  return {
      {"formats", {{"launch", Launch::kFormat}, {"plan", Plan::kFormat}}},
      {"limits",
       {{"dims", kMaxDims},
        {"column_group", Plan::kMaxColumnGroup},
        {"tapes", cpu::kTapes},
        {"site_bits", gpu::kSiteBits},
        {"gpu_batch_axes", gpu::kBatchAxes}}},
      {"roles", {{"read", number(Role::kRead)}, {"zeros", number(Role::kZeros)}, {"in_out", number(Role::kInOut)}}},
      {"covers",
       {{"unknown", number(Cover::kUnknown)}, {"stored", number(Cover::kStored)}, {"own", number(Cover::kOwn)}}},
      {"steps",
       {{"constant", number(Step::kConstant)},
        {"variable", number(Step::kVariable)},
        {"add", number(Step::kAdd)},
        {"multiply", number(Step::kMultiply)},
        {"floordiv", number(Step::kFloorDivide)},
        {"mod", number(Step::kModulo)},
        {"max", number(Step::kMax)},
        {"min", number(Step::kMin)}}},
      {"dtypes",
       {{"bool", XLA_FFI_DataType_PRED},
        {"int8", XLA_FFI_DataType_S8},
        {"int16", XLA_FFI_DataType_S16},
        {"int32", XLA_FFI_DataType_S32},
        {"int64", XLA_FFI_DataType_S64},
        {"uint8", XLA_FFI_DataType_U8},
        {"uint16", XLA_FFI_DataType_U16},
        {"uint32", XLA_FFI_DataType_U32},
        {"uint64", XLA_FFI_DataType_U64},
        {"float16", XLA_FFI_DataType_F16},
        {"float32", XLA_FFI_DataType_F32},
        {"float64", XLA_FFI_DataType_F64},
        {"bfloat16", XLA_FFI_DataType_BF16}}},
      {"frame",
       {OFFSET(Frame, operands), OFFSET(Frame, symbols), OFFSET(Frame, row_begin), OFFSET(Frame, row_end),
        OFFSET(Frame, column_begin), OFFSET(Frame, column_end), OFFSET(Frame, fill), OFFSET(Frame, first_thread),
        OFFSET(Frame, tapes), OFFSET(Frame, failed_site), OFFSET(Frame, failed_row), OFFSET(Frame, failed_column),
        {"bytes", sizeof(Frame)}}},
      {"tape", {OFFSET(Tape, data), OFFSET(Tape, top), OFFSET(Tape, capacity), {"bytes", sizeof(Tape)}}},
      {"tapes", {OFFSET(Tapes, grow), OFFSET(Tapes, failed), OFFSET(Tapes, tapes), {"bytes", sizeof(Tapes)}}},
      {"words",
       {{"total", gpu::kTotal},
        {"items", gpu::kItems},
        {"threads", gpu::kThreads},
        {"failure", gpu::kFailure},
        {"batch", gpu::kBatch},
        {"symbols", gpu::kSymbols}}},
  };
#undef OFFSET
}

}  // namespace jwarp
