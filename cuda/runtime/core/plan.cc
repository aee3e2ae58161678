// Decoding a plan, and deciding its clauses.
#include "core/plan.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/reader.h"

namespace jwarp {
namespace {

constexpr int64_t kMaxRank = 32;
constexpr int64_t kMaxParameters = 4096;
constexpr int64_t kMaxApart = int64_t{1} << 30;
constexpr int64_t kMaxWeight = int64_t{1} << 40;

// An overflow counts as "does not hold": the checked version is right whatever the numbers are.
bool holds(const Alternative& alternative, const int64_t* symbols) {
  __int128 sum = alternative.constant;
  for (const Term& term : alternative.terms) {
    const __int128 product = static_cast<__int128>(term.coefficient) * symbols[term.symbol];
    if (__builtin_add_overflow(sum, product, &sum)) return false;
  }
  return sum >= 0;
}

bool holds(const Clause& clause, const int64_t* symbols) {
  for (const Alternative& alternative : clause) {
    if (holds(alternative, symbols)) return true;
  }
  return false;
}

// The numbers x of 32 bits with  low <= x <= high.
struct Limits {
  int64_t low = INT32_MIN;
  int64_t high = INT32_MAX;

  // Those are left with  coefficient * x + constant >= 0.
  void narrow(int64_t coefficient, __int128 constant) {
    // Rounded towards what is allowed.
    const __int128 c = coefficient, quotient = -constant / c, rest = -constant % c;
    if (c > 0) {
      const __int128 least = quotient + (rest > 0);
      low = static_cast<int64_t>(std::clamp<__int128>(least, low, INT64_C(1) + INT32_MAX));
    } else {
      const __int128 greatest = quotient - (rest > 0);
      high = static_cast<int64_t>(std::clamp<__int128>(greatest, INT64_C(-1) + INT32_MIN, high));
    }
  }
  int64_t word() const {
    if (low > high) return kNothing;
    return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low));
  }

  static constexpr int64_t kNothing = 1;  // from 1 to 0
};

Parameter read_parameter(Reader& reader) {
  Parameter parameter;
  parameter.is_array = reader.next("the kind of a parameter", 0, 1) == 1;
  parameter.rank = reader.next("the rank of a parameter", 0, parameter.is_array ? kMaxRank : 0);
  parameter.dtype = reader.next("the dtype of a parameter");
  if (item_size(parameter.dtype) == 0) {
    invalid("the plan is damaged: kernels have no dtype with code " + std::to_string(parameter.dtype));
  }
  parameter.cover = static_cast<Cover>(reader.next("the cover of a parameter", 0, 2));
  parameter.is_sum = reader.next("whether a parameter is a sum", 0, parameter.is_array ? 1 : 0) == 1;
  if (parameter.is_sum && parameter.dtype == XLA_FFI_DataType_PRED) {
    invalid("the plan is damaged: a sum has elements of bool");
  }
  parameter.apart = reader.next("how the elements of a sum are told apart", 0, parameter.is_sum ? kMaxApart : 0);
  parameter.first_symbol = -1;
  return parameter;
}

}  // namespace

Plan::Plan(const int64_t* numbers, int64_t size) : numbers_(numbers, numbers + size) {
  Reader reader("plan", numbers, size);
  reader.format(kFormat);
  tid_dims = reader.next("the number of thread dimensions", 1, kMaxDims);
  weight = reader.next("the weight of a thread", 1, kMaxWeight);
  column_group = reader.next("the columns that stay together", 1, kMaxColumnGroup);
  ordered = reader.next("whether threads run in order", 0, 1) == 1;

  const int64_t parameter_count = reader.next("the number of parameters", 0, kMaxParameters);
  is_scalar_symbol_.assign(kMaxDims, false);
  for (int64_t p = 0; p < parameter_count; ++p) {
    Parameter parameter = read_parameter(reader);
    const bool scalar_symbol = !parameter.is_array && is_symbol_type(parameter.dtype);
    if (parameter.is_array || scalar_symbol) {
      parameter.first_symbol = symbol_count;
      symbol_count += parameter.is_array ? parameter.rank : 1;
      is_scalar_symbol_.resize(symbol_count, scalar_symbol);
    }
    parameters.push_back(parameter);
  }

  clauses_.resize(reader.count("the number of clauses"));
  for (Clause& clause : clauses_) {
    clause.resize(reader.count("the number of alternatives"));
    for (Alternative& alternative : clause) {
      alternative.terms.resize(reader.count("the number of terms"));
      for (Term& term : alternative.terms) {
        term.symbol = reader.next("a symbol", 0, symbol_count - 1);
        term.coefficient = reader.next("a coefficient");
        if (!is_scalar_symbol_[term.symbol]) continue;
        clauses_use_scalars = true;
        if (term.coefficient == 0) invalid("the plan is damaged: the coefficient of a scalar is 0");
      }
      alternative.constant = reader.next("a constant");
    }
  }
  reader.end();
}

bool Plan::clauses_hold(const int64_t* symbols) const {
  for (const Clause& clause : clauses_) {
    if (!holds(clause, symbols)) return false;
  }
  return true;
}

void Plan::limit_scalars(int64_t* symbols) const {
  if (!clauses_use_scalars) return;
  std::vector<Limits> limits(symbol_count);
  bool fails = false;
  for (const Clause& clause : clauses_) {
    const Term* asked = nullptr;  // the first scalar that an alternative asks for alone
    __int128 others = 0;          // the sum of all else in that alternative
    bool is_settled = false;
    for (const Alternative& alternative : clause) {
      const Term* own = nullptr;
      __int128 sum = alternative.constant;
      int scalars = 0;
      bool overflows = false;
      for (const Term& term : alternative.terms) {
        if (is_scalar_symbol_[term.symbol]) {
          own = &term;
          ++scalars;
        } else {
          const __int128 product = static_cast<__int128>(term.coefficient) * symbols[term.symbol];
          overflows |= __builtin_add_overflow(sum, product, &sum);
        }
      }
      fails |= overflows;  // the kernel decides in its own way, which knows no limits
      is_settled |= scalars == 0 && !overflows && sum >= 0;
      if (scalars == 1 && (asked == nullptr || own->symbol < asked->symbol)) {
        asked = own;
        others = sum;
      }
    }
    if (is_settled) continue;
    if (asked == nullptr) fails = true;
    else limits[asked->symbol].narrow(asked->coefficient, others);
  }
  for (int64_t k = 0; k < symbol_count; ++k) {
    if (is_scalar_symbol_[k]) symbols[k] = fails ? Limits::kNothing : limits[k].word();
  }
}

}  // namespace jwarp
