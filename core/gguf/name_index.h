// Positions of items sorted by name: how keys and tensors are found. Not a hash table: a file could be made to collide
// in one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::gguf {

// 0, 1, ... n - 1, ordered by less(i, j).
template <class Less>
std::vector<size_t> sorted_positions(size_t n, Less less) {
  std::vector<size_t> positions(n);
  std::iota(positions.begin(), positions.end(), size_t{0});
  std::sort(positions.begin(), positions.end(), less);
  return positions;
}

// Positions of n items sorted by name_of(position), then by position, so that of equal names the later follows the
// earlier.
template <class NameOf>
std::vector<size_t> sorted_by_name(size_t n, NameOf name_of) {
  return sorted_positions(n, [&](size_t i, size_t j) {
    const auto order = name_of(i) <=> name_of(j);
    return order != 0 ? order < 0 : i < j;
  });
}

// The earliest item whose name an earlier one has, and that earlier one: {earlier, later}; nullopt when all differ.
template <class NameOf>
std::optional<std::pair<size_t, size_t>> find_duplicate(const std::vector<size_t> &sorted, NameOf name_of) {
  std::optional<std::pair<size_t, size_t>> found;
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (name_of(sorted[i - 1]) != name_of(sorted[i])) continue;
    if (!found || sorted[i] < found->second) found = {sorted[i - 1], sorted[i]};
  }
  return found;
}

// The position of the item called `name`.
template <class NameOf>
std::optional<size_t> find_sorted(const std::vector<size_t> &sorted, std::string_view name, NameOf name_of) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), name,
                                      [&](size_t i, std::string_view wanted) { return name_of(i) < wanted; });
  if (found == sorted.end() || name_of(*found) != name) return std::nullopt;
  return *found;
}

}  // namespace bonsai::gguf
