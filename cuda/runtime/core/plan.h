// The launcher's knowledge of a compiled kernel: its parameters and when its fast version may run.
#pragma once

#include <cstdint>
#include <vector>

namespace jwarp {

constexpr int64_t kMaxDims = 4;

// How the threads of a launch touch an output whose extents are the launch dimensions.
enum class Cover : int64_t {
  kUnknown = 0,
  kStored = 1,  // each thread stores its own element with all its components, whatever happens
  kOwn = 2,     // each thread touches only its own element
};

struct Parameter {
  bool is_array;
  int64_t rank;
  int64_t dtype;
  Cover cover;
  bool is_sum;  // threads do nothing but add to its elements, and not atomically
  // Of a sum: whether threads whose first coordinates differ add to different elements; 0: that is not known, 1: they
  // do, more: they do where the last dimension is no longer than that.
  int64_t apart;
  int64_t first_symbol;  // -1 for a scalar that is not a symbol
};

struct Term {
  int64_t symbol;
  int64_t coefficient;
};

// Holds when  sum(coefficient * symbols[symbol]) + constant >= 0.
struct Alternative {
  std::vector<Term> terms;
  int64_t constant;
};

// Holds when any of its alternatives does.
using Clause = std::vector<Alternative>;

class Plan {
 public:
  static constexpr int64_t kFormat = 5;
  static constexpr int64_t kMaxColumnGroup = 64;

  // Throws Fault when the numbers are no plan.
  Plan(const int64_t* numbers, int64_t size);

  bool same_numbers(const Plan& other) const { return numbers_ == other.numbers_; }
  bool clauses_hold(const int64_t* symbols) const;
  // Writes to the places of scalars, which only the GPU knows, limits within which all clauses hold: the least number in
  // the lower 32 bits and the greatest in the upper ones. Where a clause asks for one of several scalars, the limits are
  // those of the first one; where nothing else would do, there is nothing between them.
  void limit_scalars(int64_t* symbols) const;

  int64_t tid_dims;
  int64_t weight;  // an estimate of one thread's work, in tenths of a nanosecond
  int64_t column_group;  // vector code works on columns, so a row is only split at multiples of this; 1 for blocks
  bool ordered;  // the threads of a batch element run one after the other, in the order of their numbers
  std::vector<Parameter> parameters;
  // Launch dimensions, then per parameter the extents of an array or the value of an integer scalar.
  int64_t symbol_count = kMaxDims;
  bool clauses_use_scalars = false;

 private:
  std::vector<Clause> clauses_;
  std::vector<bool> is_scalar_symbol_;
  std::vector<int64_t> numbers_;
};

}  // namespace jwarp
