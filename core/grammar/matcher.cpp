#include "core/grammar/matcher.h"

#include <algorithm>
#include <utility>

namespace bonsai::grammar {
namespace {

void set_bit(std::span<uint32_t> words, int32_t token) { words[static_cast<size_t>(token) / 32] |= 1u << (token % 32); }

}  // namespace

Matcher::Matcher(std::shared_ptr<TokenMasks> masks) : masks_(std::move(masks)) {
  Threads &start = history_.emplace_back();
  start.list.push_back({masks_->automaton().root(), Stacks::kBottom});
  start.ended = masks_->automaton().may_be_empty();
}

bool Matcher::mask(std::span<uint32_t> words) {
  std::fill(words.begin(), words.end(), 0u);
  stacks_.restart_work();
  const bool is_whole = is_near_limits() ? try_every_token(words) : join_masks(words);
  if (!is_whole) {
    std::fill(words.begin(), words.end(), 0u);
    return false;
  }
  if (can_end())
    for (const int32_t end : masks_->vocabulary().ends()) set_bit(words, end);
  return std::any_of(words.begin(), words.end(), [](uint32_t word) { return word != 0; });
}

// False, as of the next one, if that took too much work.
bool Matcher::join_masks(std::span<uint32_t> words) {
  for (const Thread thread : here().list) {
    const auto mask = masks_->of(thread.state);
    if (!mask->is_whole) return false;
    for (size_t i = 0; i < mask->mask.size(); ++i) words[i] |= mask->mask[i];
    for (const int32_t token : mask->tokens) set_bit(words, token);
    if (thread.stacks != Stacks::kBottom && !mask->rests.empty()) add_rests(*mask, thread.stacks, words);
  }
  return !stacks_.is_spent();
}

// Where a token might meet one of the limits, which the masks of states know nothing of.
bool Matcher::is_near_limits() const {
  const auto is_deep = [&](const Thread &thread) { return stacks_.depth(thread.stacks) > Stacks::kMostDepth / 2; };
  return here().list.size() > Threads::kMost / 2 || std::any_of(here().list.begin(), here().list.end(), is_deep);
}

bool Matcher::try_every_token(std::span<uint32_t> words) {
  const size_t n_stacks = stacks_.size();
  if (levels_.empty()) levels_.resize(1);
  levels_[0] = here();
  for (const Vocabulary::Group &group : masks_->vocabulary().groups()) {
    for (size_t i = 0; i < group.trie.nodes.size() && !stacks_.is_spent();) {
      const TokenTrie::Node &node = group.trie.nodes[i];
      if (levels_.size() <= node.depth) levels_.resize(node.depth + 1u);
      if (!step(masks_->automaton(), stacks_, levels_[node.depth - 1u], node.byte, levels_[node.depth])) {
        i = node.end;
        continue;
      }
      if (node.token >= 0) set_bit(words, node.token);
      ++i;
    }
  }
  stacks_.release(n_stacks);
  return !stacks_.is_spent();
}

// Tokens that leave the rule of a thread go on in those that it returns to.
void Matcher::add_rests(const StateMask &mask, uint32_t stacks, std::span<uint32_t> words) {
  const size_t n_stacks = stacks_.size();
  if (levels_.empty()) levels_.resize(1);
  levels_[0].clear();
  const std::vector<Stacks::Frame> tops(stacks_.tops(stacks).begin(), stacks_.tops(stacks).end());
  for (const Stacks::Frame top : tops)
    if (top.state != 0) add_with_returns(masks_->automaton(), stacks_, {top.state, top.below}, levels_[0]);
  for (size_t i = 0; i < mask.rests.size() && !stacks_.is_spent();) {
    const StateMask::Rest &rest = mask.rests[i];
    if (levels_.size() <= rest.depth) levels_.resize(rest.depth + 1u);
    if (!step(masks_->automaton(), stacks_, levels_[rest.depth - 1u], rest.byte, levels_[rest.depth])) {
      i = rest.end;
      continue;
    }
    for (uint32_t token = rest.first_token; token < rest.last_token; ++token) set_bit(words, mask.rest_tokens[token]);
    ++i;
  }
  stacks_.release(n_stacks);
}

// Leaves what is behind `bytes` in `threads`, which holds what is in front of them.
bool Matcher::read(std::string_view bytes, Threads &threads) {
  if (bytes.empty()) return false;
  for (const char byte : bytes) {
    if (!step(masks_->automaton(), stacks_, threads, static_cast<uint8_t>(byte), next_)) return false;
    std::swap(threads, next_);
  }
  return true;
}

bool Matcher::allows(int32_t token) {
  if (token < 0 || static_cast<uint32_t>(token) >= masks_->vocabulary().size()) return false;
  if (masks_->vocabulary().is_end(token)) return can_end();
  const size_t n_stacks = stacks_.size();
  stacks_.restart_work();
  Threads threads = here();
  const bool allowed = read(masks_->vocabulary().bytes(token), threads);
  stacks_.release(n_stacks);
  return allowed;
}

bool Matcher::accept(int32_t token) {
  if (token < 0 || static_cast<uint32_t>(token) >= masks_->vocabulary().size()) return false;
  if (masks_->vocabulary().is_end(token)) {
    if (!can_end()) return false;
    history_.emplace_back();
    return true;
  }
  stacks_.restart_work();
  Threads threads = here();
  if (!read(masks_->vocabulary().bytes(token), threads)) return false;
  history_.push_back(std::move(threads));
  return true;
}

void Matcher::rollback(size_t n) { history_.resize(history_.size() - std::min(n, length())); }

bool Matcher::is_complete() const {
  const Automaton &automaton = masks_->automaton();
  return can_end() && std::all_of(here().list.begin(), here().list.end(),
                                  [&](const Thread &thread) { return automaton.is_bare_end(thread.state); });
}

}  // namespace bonsai::grammar
