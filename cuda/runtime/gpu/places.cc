// A table of places by the code of kernels, which is looked up when there is an error.
#include "gpu/places.h"

#include <functional>
#include <mutex>
#include <unordered_map>

#include "gpu/driver.h"

namespace jwarp::gpu {
namespace {

// When there are so many, all are forgotten.
constexpr size_t kMaxPlaces = 1 << 14;

using Places = std::unordered_map<size_t, std::string>;

// Never destroyed: launches of other threads may outlive the statics.
Places& places() {
  static auto* const known = new Places;
  return *known;
}

size_t key_of(std::string_view image, std::string_view entry) {
  const std::hash<std::string_view> hash;
  return hash(image) * 31 + hash(entry);
}

}  // namespace

void note_place(std::string_view image, std::string_view entry, const std::string& place) {
  const size_t key = key_of(image, entry);
  const std::lock_guard<std::mutex> lock(process_mutex());
  if (places().size() >= kMaxPlaces) places().clear();
  places()[key] = place;
}

std::string place_of(std::string_view image, std::string_view entry) {
  const size_t key = key_of(image, entry);
  const std::lock_guard<std::mutex> lock(process_mutex());
  const auto found = places().find(key);
  return found == places().end() ? std::string() : found->second;
}

}  // namespace jwarp::gpu
