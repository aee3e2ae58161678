// Arrays of NumPy as they were at one time, each once, and whether they are so still.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace jwarp {

// The attributes of an array can be set, and it can be resized by force, which frees its memory. Somebody else keeps the
// arrays alive.
class SeenArrays {
 public:
  void add(const pybind11::array& array, bool writes) {
    const auto* fields = pybind11::detail::array_proxy(array.ptr());
    const auto [found, is_new] = numbers_.try_emplace(fields, seen_.size());
    if (!is_new) {
      seen_[found->second].writes |= writes;
      return;
    }
    seen_.push_back({fields, fields->data, fields->nd, writes, extents_.size()});
    extents_.insert(extents_.end(), fields->dimensions, fields->dimensions + fields->nd);
    extents_.insert(extents_.end(), fields->strides, fields->strides + fields->nd);
  }

  bool are_same() const {
    for (const Seen& one : seen_) {
      const Fields& now = *one.fields;
      if (now.data != one.data || now.nd != one.rank) return false;
      if (one.writes && !(now.flags & pybind11::detail::npy_api::NPY_ARRAY_WRITEABLE_)) return false;
      const int64_t* const extents = extents_.data() + one.first;
      for (int64_t axis = 0; axis < one.rank; ++axis) {
        if (now.dimensions[axis] != extents[axis] || now.strides[axis] != extents[one.rank + axis]) return false;
      }
    }
    return true;
  }

 private:
  using Fields = pybind11::detail::PyArray_Proxy;

  struct Seen {
    const Fields* fields;
    const void* data;
    int rank;
    bool writes;
    size_t first;  // of its extents, and then its strides
  };

  std::vector<Seen> seen_;
  std::vector<int64_t> extents_;
  std::unordered_map<const Fields*, size_t> numbers_;
};

}  // namespace jwarp
