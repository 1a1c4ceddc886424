#include "host/sampling/stop_strings.h"

#include <algorithm>
#include <utility>

namespace bonsai::host {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string &stop) { return stop.empty(); });
}

// {npos, npos} where there is none. What precedes pending_ was let through because it begins no stop string.
StopStrings::Match StopStrings::first_match() const {
  Match first{std::string::npos, std::string::npos};
  for (const std::string &stop : stops_) {
    const size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const Match match{begin, begin + stop.size()};
    if (match.end < first.end || (match.end == first.end && match.begin < first.begin)) first = match;
  }
  return first;
}

// The length of the longest end of pending_ that begins a stop string.
size_t StopStrings::held_back() const {
  size_t longest = 0;
  for (const std::string &stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > longest; --n) {
      if (std::string_view(pending_).substr(pending_.size() - n) == std::string_view(stop).substr(0, n)) longest = n;
    }
  }
  return longest;
}

std::string StopStrings::push(std::string_view text) {
  if (stopped()) return {};
  pending_ += text;
  const Match match = first_match();
  if (match.begin != std::string::npos) found_ = pending_.substr(match.begin, match.end - match.begin);
  const size_t n_safe = stopped() ? match.begin : pending_.size() - held_back();
  std::string safe = pending_.substr(0, n_safe);
  pending_.erase(0, stopped() ? pending_.size() : n_safe);
  return safe;
}

std::string StopStrings::flush() { return std::exchange(pending_, {}); }

}  // namespace bonsai::host
