#include "host/speculation/lookup_drafter.h"

#include <algorithm>
#include <random>

namespace bonsai::host {
namespace {

constexpr size_t kMostCompared = 10;  // tokens of a match that are told apart as evidence

}  // namespace

LookupDrafter::Keys LookupDrafter::random_keys() {
  std::random_device device;  // 32 bits at a time
  Keys keys;
  for (auto &half : keys)
    for (uint64_t &key : half) key = uint64_t{device()} << 32 | device();
  return keys;
}

// Multilinear hashing (Lemire and Kaser, arXiv:1202.4961), twice 32 bits, of a run's length and its tokens: under
// random keys two runs have the same hash as seldom as two random numbers are the same, whoever chose the runs.
uint64_t LookupDrafter::hash(std::span<const int32_t> run) const {
  const auto hash_with = [run](const auto &keys) {
    uint64_t sum = keys[0] + keys[1] * run.size();
    for (size_t i = 0; i < run.size(); ++i) sum += keys[2 + i] * static_cast<uint32_t>(run[i]);
    return sum >> 32;
  };
  return hash_with(keys_[0]) << 32 | hash_with(keys_[1]);
}

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
