// Reading numbers from a flat description that may be damaged.
#pragma once

#include <cstdint>
#include <string>

#include "core/fault.h"

namespace jwarp {

class Reader {
 public:
  Reader(const char* what, const int64_t* numbers, int64_t size)
      : what_(what), numbers_(numbers), size_(size) {}

  // The next number, which must lie in [low, high].
  int64_t next(const char* name, int64_t low, int64_t high) {
    const int64_t value = next(name);
    if (value < low || value > high) {
      invalid(std::string("the ") + what_ + " is damaged: " + name + " is " + std::to_string(value) +
              ", not between " + std::to_string(low) + " and " + std::to_string(high));
    }
    return value;
  }

  int64_t next(const char* name) {
    if (position_ >= size_) {
      invalid(std::string("the ") + what_ + " is damaged: it ends before " + name);
    }
    return numbers_[position_++];
  }

  // The first number, which every version has.
  void format(int64_t known) {
    const int64_t found = next("the format");
    if (found == known) return;
    invalid(std::string("the ") + what_ + " has format " + std::to_string(found) + ", this version of jwarp reads " +
            std::to_string(known) + ": it is damaged, or made by another version");
  }

  // A count of things of which each takes at least one number: never more than what is left,
  // so that no damaged count makes us reserve memory without bound.
  int64_t count(const char* name) { return next(name, 0, size_ - position_ - 1); }

  void end() const {
    if (position_ != size_) {
      invalid(std::string("the ") + what_ + " is damaged: it has " + std::to_string(size_ - position_) +
              " numbers too many");
    }
  }

 private:
  const char* what_;
  const int64_t* numbers_;
  int64_t size_;
  int64_t position_ = 0;
};

}  // namespace jwarp
