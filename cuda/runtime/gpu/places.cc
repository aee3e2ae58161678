// A table of places by the code of kernels, which is looked up when there is an error.
#include "gpu/places.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpu/driver.h"

namespace jwarp::gpu {
namespace {

// When there are so many, all are forgotten.
constexpr size_t kMaxPlaces = 1 << 14;

// Of copies of a kernel in several files, so many are known.
constexpr size_t kMaxCopies = 3;

using Places = std::unordered_map<size_t, std::vector<std::string>>;

// Never destroyed: launches of other threads may outlive the statics.
Places& places() {
  static auto* const known = new Places;
  return *known;
}

size_t key_of(std::string_view image, std::string_view entry) {
  const std::hash<std::string_view> hash;
  return hash(image) * 31 + hash(entry);
}

std::string_view file_of(std::string_view place) { return place.substr(0, place.rfind(':')); }

}  // namespace

void note_place(std::string_view image, std::string_view entry, const std::string& place) {
  const size_t key = key_of(image, entry);
  const std::lock_guard<std::mutex> lock(process_mutex());
  if (places().size() >= kMaxPlaces) places().clear();
  std::vector<std::string>& copies = places()[key];
  const auto is_moved = [&](const std::string& known) { return file_of(known) == file_of(place); };
  copies.erase(std::remove_if(copies.begin(), copies.end(), is_moved), copies.end());
  if (copies.size() >= kMaxCopies) copies.erase(copies.begin());
  copies.push_back(place);
}

std::string place_of(std::string_view image, std::string_view entry) {
  const size_t key = key_of(image, entry);
  const std::lock_guard<std::mutex> lock(process_mutex());
  const auto found = places().find(key);
  std::string all;
  if (found == places().end()) return all;
  for (const std::string& place : found->second) all += (all.empty() ? "" : " or ") + place;
  return all;
}

}  // namespace jwarp::gpu
