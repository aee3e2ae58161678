// An array whose length is known once, on the stack when it is short.
#pragma once

#include <cstddef>
#include <memory>

namespace jwarp {

template <typename T, size_t kInline>
class SmallArray {
 public:
  explicit SmallArray(size_t size) : data_(size <= kInline ? inline_ : nullptr) {
    if (data_ == nullptr) {
      heap_.reset(new T[size]);
      data_ = heap_.get();
    }
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  T inline_[kInline];
  std::unique_ptr<T[]> heap_;
  T* data_;
};

}  // namespace jwarp
