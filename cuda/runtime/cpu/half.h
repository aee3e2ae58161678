// 16-bit floats, which are added in 32 bits and rounded once.
#pragma once

#include <cstdint>
#include <cstring>

namespace jwarp::cpu {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float widen(BFloat16 x) { return float_of_bits(uint32_t{x.bits} << 16); }

inline BFloat16 narrow_to_bfloat16(float x) {
  const uint32_t bits = bits_of(x);
  if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  // Half of the last place less one, and one more where that makes an odd number even.
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

inline float widen(Half x) {
  const uint32_t sign = (uint32_t{x.bits} & 0x8000) << 16;
  const uint32_t rest = uint32_t{x.bits} & 0x7fff;
  if (rest >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // The exponents differ by 112; the product is exact, also for subnormal numbers.
  const float scaled = float_of_bits(rest << 13) * 0x1p112f;
  return float_of_bits(sign | bits_of(scaled));
}

inline Half narrow_to_half(float x) {
  const uint32_t bits = bits_of(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (rest >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds to 2^16 or more
  if (rest < 0x38800000) {
    // Below 2^-14 the last place is 2^-24: adding 1/2 moves it to the end of the float, which rounds.
    return {static_cast<uint16_t>(sign | (bits_of(float_of_bits(rest) + 0.5f) - bits_of(0.5f)))};
  }
  const uint32_t rounded = rest + 0xfff + ((rest >> 13) & 1);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13))};
}

template <typename T>
T sum(T x, T y) {
  return static_cast<T>(x + y);
}

inline Half sum(Half x, Half y) { return narrow_to_half(widen(x) + widen(y)); }
inline BFloat16 sum(BFloat16 x, BFloat16 y) { return narrow_to_bfloat16(widen(x) + widen(y)); }

}  // namespace jwarp::cpu
