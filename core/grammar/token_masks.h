// Which tokens may follow, by state of a grammar's automaton, worked out once and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/grammar/automaton.h"
#include "core/grammar/vocabulary.h"

namespace bonsai::grammar {

// What one state says about every token without knowing what its rule returns to: most tokens are allowed or not
// whatever stands below on the stack, and only those that read beyond the rule's end have to be tried on the stack at
// hand (the division of XGrammar, arXiv:2411.15100).
struct StateMask {
  std::vector<uint32_t> mask;   // allowed tokens, where they are many; else empty
  std::vector<int32_t> tokens;  // and where they are few
  // Tokens that read to the end of the rule and then on: grouped by what they read behind it, as a trie whose nodes
  // may have several tokens.
  struct Rest {
    uint32_t end;                      // one past the last node below this one
    uint32_t first_token, last_token;  // of `rest_tokens`
    uint16_t depth;
    uint8_t byte;
  };
  std::vector<Rest> rests;
  std::vector<int32_t> rest_tokens;
  bool is_whole = true;  // not where it would have taken too much work

  size_t bytes() const;  // of memory
};

// A grammar over a vocabulary. Every method may be called from any thread at once.
class TokenMasks {
 public:
  // `most_bytes`: what the masks that are kept may take; those that were not used for longest go first.
  TokenMasks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
             size_t most_bytes = size_t{64} << 20);

  const Automaton &automaton() const { return *automaton_; }
  const Vocabulary &vocabulary() const { return *vocabulary_; }

  // Works it out at the first call for a state. Never null.
  std::shared_ptr<const StateMask> of(uint32_t state);

  struct Counts {
    uint64_t found = 0, made = 0, dropped = 0;
    size_t bytes = 0;  // that are kept
  };
  Counts counts() const;

 private:
  struct Entry {
    uint32_t state;
    std::shared_ptr<const StateMask> mask;
  };

  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  size_t most_bytes_;

  mutable std::mutex mutex_;  // for what follows
  std::list<Entry> entries_;  // the one used last in front
  std::unordered_map<uint32_t, std::list<Entry>::iterator> by_state_;
  Counts counts_;
};

}  // namespace bonsai::grammar
