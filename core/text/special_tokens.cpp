#include "core/text/special_tokens.h"

#include <algorithm>

namespace bonsai::text {

void SpecialMatcher::add(std::string_view spelling, int32_t id) {
  if (spelling.empty()) return;
  entries_.push_back({std::string(spelling), id});
  is_first_byte_[static_cast<uint8_t>(spelling.front())] = true;
}

void SpecialMatcher::finish() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) { return a.spelling < b.spelling; });
}

std::optional<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text, size_t from) const {
  if (entries_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!is_first_byte_[static_cast<uint8_t>(text[at])]) continue;
    if (auto match = match_at(text, at)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted entries byte by byte to those that agree with the text so far.
std::optional<SpecialMatcher::Match> SpecialMatcher::match_at(std::string_view text, size_t begin) const {
  std::optional<Match> longest;
  auto low = entries_.begin();
  auto high = entries_.end();
  for (size_t depth = 0; begin + depth < text.size(); ++depth) {
    const auto byte = static_cast<uint8_t>(text[begin + depth]);
    // Entries that end here sort before all others and were taken into account one byte earlier.
    const auto byte_of = [&](const Entry &entry) {
      return depth < entry.spelling.size() ? static_cast<int>(static_cast<uint8_t>(entry.spelling[depth])) : -1;
    };
    low = std::partition_point(low, high, [&](const Entry &entry) { return byte_of(entry) < byte; });
    high = std::partition_point(low, high, [&](const Entry &entry) { return byte_of(entry) == byte; });
    if (low == high) break;
    if (low->spelling.size() == depth + 1) longest = Match{begin, begin + depth + 1, low->id};
  }
  return longest;
}

}  // namespace bonsai::text
