#include "host/speculation/lookup_drafter.h"

#include <algorithm>

namespace bonsai::host {
namespace {

constexpr size_t kMostCompared = 10;  // tokens of a match that are told apart as evidence

// Of a run of tokens; its length counts, too.
uint64_t hash(std::span<const int32_t> run) {
  uint64_t h = run.size() * 0xBF58476D1CE4E5B9u;
  for (const int32_t token : run) {
    h = (h ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace

void LookupDrafter::begin(std::span<const int32_t> text) {
  text_.clear();
  followers_.clear();
  for (const int32_t token : text) append(token);
}

// A run is known once something follows it, so that the text's own end is never found.
void LookupDrafter::append(int32_t token) {
  const size_t end = text_.size();
  for (size_t n = kShortest; n <= std::min(kLongest, end); ++n)
    followers_[hash(std::span(text_).last(n))] = static_cast<uint32_t>(end);
  text_.push_back(token);
}

// Where the token behind the last `n` tokens stood, when these stood somewhere before.
std::optional<size_t> LookupDrafter::find(size_t n) const {
  const auto end = std::span(text_).last(n);
  const auto found = followers_.find(hash(end));
  // Another run may have the same hash, a shorter one, too.
  if (found == followers_.end() || found->second < n) return std::nullopt;
  const auto before = std::span(text_).subspan(found->second - n, n);
  if (!std::equal(end.begin(), end.end(), before.begin())) return std::nullopt;
  return found->second;
}

// Tokens before `follower` that are also the text's last.
size_t LookupDrafter::common_length(size_t follower) const {
  size_t n = 0;
  while (n < std::min(kMostCompared, follower) && text_[follower - 1 - n] == text_[text_.size() - 1 - n]) ++n;
  return n;
}

std::optional<Drafter::Evidence> LookupDrafter::evidence() {
  for (size_t n = std::min(kLongest, text_.size()); n >= kShortest; --n) {
    const auto found = find(n);
    if (!found) continue;
    match_ = *found;
    const size_t length = common_length(match_);
    if (length >= 10) return kTenTokens;
    if (length >= 6) return kSixTokens;
    if (length >= 4) return kFourTokens;
    return length == 3 ? kThreeTokens : kTwoTokens;
  }
  return std::nullopt;
}

void LookupDrafter::propose(uint32_t most, std::vector<int32_t> &tokens) {
  for (size_t i = 0; i < most; ++i) {
    const size_t from = match_ + i;
    tokens.push_back(from < text_.size() ? text_[from] : tokens[from - text_.size()]);
  }
}

}  // namespace bonsai::host
