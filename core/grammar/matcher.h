// A text on its way through a grammar, token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/grammar/stacks.h"
#include "core/grammar/threads.h"
#include "core/grammar/token_masks.h"

namespace bonsai::grammar {

// Used by one thread at a time; matchers of the same TokenMasks may be used at once. A copy goes its own way; it costs
// about what the text so far has cost in memory.
//
// Every text that is accepted can be brought to an end that the grammar allows, by tokens that mask() allows. Three
// limits may exclude texts that the grammar alone would allow: rules within rules more than Stacks::kMostDepth deep,
// more than Threads::kMost ways to read the text, and Stacks::kMostWork for a mask or a token.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<TokenMasks> masks);

  // Sets the bits of the tokens that may come next, and clears all others: bit i % 32 of word i / 32 is token i's.
  // Tokens that end the text are among them exactly when can_end(). Precondition: words.size() is the vocabulary's
  // n_words(). Returns whether any bit is set; if not, one of the limits above left no way on.
  bool mask(std::span<uint32_t> words);

  // Whether mask() would set this token's bit, found out without a mask.
  bool allows(int32_t token);

  // Goes on behind a token. False if it is not allowed: nothing has changed then.
  bool accept(int32_t token);

  // Undoes the last `n` accepted tokens, or all if they are fewer.
  void rollback(size_t n);

  size_t length() const { return history_.size() - 1; }  // tokens that were accepted
  bool can_end() const { return here().ended; }          // the text is a sentence of the grammar
  // And nothing but its end may follow.
  bool is_complete() const;

 private:
  const Threads &here() const { return history_.back(); }
  bool read(std::string_view bytes, Threads &threads);
  bool is_near_limits() const;
  bool join_masks(std::span<uint32_t> words);
  bool try_every_token(std::span<uint32_t> words);
  void add_rests(const StateMask &mask, uint32_t stacks, std::span<uint32_t> words);

  std::shared_ptr<TokenMasks> masks_;
  Stacks stacks_;
  std::vector<Threads> history_;  // at the beginning and behind each token; empty threads behind the end of the text
  std::vector<Threads> levels_;   // kept for their memory
  Threads next_;                  // likewise
};

}  // namespace bonsai::grammar
