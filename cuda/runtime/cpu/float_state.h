// The floating-point state that kernels run in.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <cstdint>

namespace jwarp::cpu {

// XLA flushes subnormal numbers to zero while it executes, a launch outside XLA does not. A kernel gives
// the same bits wherever it runs, so it always sees round-to-nearest with subnormals kept.
class DefaultFloatState {
 public:
#if defined(__x86_64__)
  DefaultFloatState() : saved_(_mm_getcsr()) {
    if ((saved_ & ~kStatusFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatState() {
    if ((saved_ & ~kStatusFlags) != kDefault) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kStatusFlags = 0x3f;
  static constexpr unsigned kDefault = 0x1f80;
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultFloatState() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    if (saved_ != 0) set(0);
  }
  ~DefaultFloatState() {
    if (saved_ != 0) set(saved_);
  }

 private:
  static void set(uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
  uint64_t saved_;
#else
  DefaultFloatState() {}
  ~DefaultFloatState() {}
#endif

 public:
  DefaultFloatState(const DefaultFloatState&) = delete;
  DefaultFloatState& operator=(const DefaultFloatState&) = delete;
};

}  // namespace jwarp::cpu
