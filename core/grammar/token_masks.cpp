#include "core/grammar/token_masks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/grammar/plain_run.h"
#include "core/grammar/threads.h"

namespace bonsai::grammar {
namespace {

// Beyond so many allowed tokens a mask takes no more room than their list, or hardly.
constexpr size_t kMostListed = 1024;

class MaskMaker {
 public:
  MaskMaker(const Automaton &automaton, const Vocabulary &vocabulary, uint32_t state)
      : automaton_(automaton), vocabulary_(vocabulary), state_(state) {}

  StateMask make() {
    mask_.assign(vocabulary_.n_words(), 0);
    const PlainRun run = plain_run(automaton_, state_, vocabulary_.longest_plain_text());
    for (const Vocabulary::Group &group : vocabulary_.groups()) {
      if (group.longest > 0 && group.longest <= run.length)
        take_all(group);
      else if (group.longest == 0 || group.shortest <= run.length || !run.rejects_longer)
        walk(group.trie);
    }
    add_rests();
    if (n_allowed_ <= kMostListed)
      list_tokens();
    else
      made_.mask = std::move(mask_);
    made_.is_whole = !stacks_.is_spent();
    return std::move(made_);
  }

 private:
  struct Leaving {
    std::string_view rest;  // what is read behind the end of the rule
    int32_t token;
  };

  void take_all(const Vocabulary::Group &group) {
    for (size_t i = 0; i < mask_.size(); ++i) mask_[i] |= group.mask[i];
    n_allowed_ += kMostListed + 1;  // however many they are
  }

  void walk(const TokenTrie &trie) {
    if (levels_.empty()) levels_.resize(1);
    levels_[0].clear();
    levels_[0].list.push_back({state_, Stacks::kBottom});
    for (size_t i = 0; i < trie.nodes.size() && !stacks_.is_spent();) {
      const TokenTrie::Node &node = trie.nodes[i];
      if (levels_.size() <= node.depth) levels_.resize(node.depth + 1u);
      Threads &behind = levels_[node.depth];
      if (!step(automaton_, stacks_, levels_[node.depth - 1u], node.byte, behind)) {
        i = node.end;
        continue;
      }
      if (node.token >= 0) allow(node.token);
      if (behind.ended) leave(trie, i);
      ++i;
    }
    stacks_.release(1);
  }

  void allow(int32_t token) {
    mask_[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
    ++n_allowed_;
  }

  void leave(const TokenTrie &trie, size_t at) {
    const TokenTrie::Node &node = trie.nodes[at];
    for (size_t i = at + 1; i < node.end; ++i) {
      const int32_t token = trie.nodes[i].token;
      if (token >= 0) leaving_.push_back({vocabulary_.bytes(token).substr(node.depth), token});
    }
  }

  bool is_allowed(int32_t token) const { return (mask_[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0; }

  // Those that are not allowed anyway, as a trie of what they read behind the rule.
  void add_rests() {
    std::erase_if(leaving_, [&](const Leaving &one) { return is_allowed(one.token); });
    std::sort(leaving_.begin(), leaving_.end(), [](const Leaving &a, const Leaving &b) { return a.rest < b.rest; });
    std::vector<size_t> path;
    std::string_view last;
    const auto close = [&](size_t depth) {
      for (; path.size() > depth; path.pop_back())
        made_.rests[path.back()].end = static_cast<uint32_t>(made_.rests.size());
    };
    for (const Leaving &one : leaving_) {
      const auto differs = std::mismatch(last.begin(), last.end(), one.rest.begin(), one.rest.end());
      close(static_cast<size_t>(differs.first - last.begin()));
      const auto n_tokens = static_cast<uint32_t>(made_.rest_tokens.size());
      for (size_t depth = path.size(); depth < one.rest.size(); ++depth) {
        path.push_back(made_.rests.size());
        made_.rests.push_back(
            {0, n_tokens, n_tokens, static_cast<uint16_t>(depth + 1), static_cast<uint8_t>(one.rest[depth])});
      }
      made_.rest_tokens.push_back(one.token);
      made_.rests[path.back()].last_token = n_tokens + 1;
      last = one.rest;
    }
    close(0);
  }

  void list_tokens() {
    for (size_t word = 0; word < mask_.size(); ++word)
      for (uint32_t bits = mask_[word]; bits != 0; bits &= bits - 1)
        made_.tokens.push_back(static_cast<int32_t>(word * 32) + __builtin_ctz(bits));
  }

  const Automaton &automaton_;
  const Vocabulary &vocabulary_;
  const uint32_t state_;
  Stacks stacks_;
  std::vector<Threads> levels_;  // behind each byte of the token at hand
  std::vector<uint32_t> mask_;
  size_t n_allowed_ = 0;
  std::vector<Leaving> leaving_;
  StateMask made_;
};

}  // namespace

size_t StateMask::bytes() const {
  return sizeof *this + mask.size() * sizeof mask[0] + (tokens.size() + rest_tokens.size()) * sizeof(int32_t) +
         rests.size() * sizeof(Rest);
}

TokenMasks::TokenMasks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
                       size_t most_bytes)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), most_bytes_(most_bytes) {}

std::shared_ptr<const StateMask> TokenMasks::of(uint32_t state) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = by_state_.find(state); at != by_state_.end()) {
      ++counts_.found;
      entries_.splice(entries_.begin(), entries_, at->second);
      return at->second->mask;
    }
  }
  // Not under the lock: two threads may make the same mask, which costs time and nothing else.
  auto made = std::make_shared<const StateMask>(MaskMaker(*automaton_, *vocabulary_, state).make());
  const std::lock_guard lock(mutex_);
  ++counts_.made;
  if (by_state_.count(state) > 0) return made;
  entries_.push_front({state, made});
  by_state_[state] = entries_.begin();
  counts_.bytes += made->bytes();
  while (counts_.bytes > most_bytes_ && entries_.size() > 1) {
    counts_.bytes -= entries_.back().mask->bytes();
    by_state_.erase(entries_.back().state);
    entries_.pop_back();
    ++counts_.dropped;
  }
  return made;
}

TokenMasks::Counts TokenMasks::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace bonsai::grammar
