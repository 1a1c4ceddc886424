// A vocabulary as a grammar sees it: which bytes each token stands for, in orders that make masks quick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/tokenizer.h"

namespace bonsai::grammar {

// Tokens by their common beginnings, in depth-first order.
struct TokenTrie {
  struct Node {
    uint32_t end;    // one past the last node below this one
    int32_t token;   // that ends here, or -1
    uint16_t depth;  // 1: its first byte
    uint8_t byte;
  };
  std::vector<Node> nodes;
};

// Immutable; a few megabytes for 150,000 tokens.
class Vocabulary {
 public:
  static constexpr size_t kMostTokenBytes = 1024;  // longer tokens are never allowed

  // `size`: how many logits the model has; ids from there on, and those without a token, are never allowed. Neither are
  // special tokens: what they spell can be spelled by others.
  Vocabulary(const text::Tokenizer &tokenizer, uint32_t size);
  // The bytes of each token, empty for those that are never allowed; the ids that end a text.
  Vocabulary(std::vector<std::string> tokens, std::vector<int32_t> ends);

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  size_t n_words() const { return (tokens_.size() + 31) / 32; }  // of 32 bits, in a mask
  std::string_view bytes(int32_t token) const { return tokens_[static_cast<size_t>(token)]; }
  std::span<const int32_t> ends() const { return ends_; }
  bool is_end(int32_t token) const;

  // Plain text is what may stand in a JSON string as it is: whole characters but for controls, quotation marks and
  // backslashes. Groups of such tokens by length, the last group being all other tokens.
  struct Group {
    uint32_t shortest, longest;  // characters in each; 0: not plain text
    TokenTrie trie;
    std::vector<uint32_t> mask;  // of the group's tokens
  };
  const std::vector<Group> &groups() const { return groups_; }
  uint32_t longest_plain_text() const { return longest_plain_text_; }  // no token of plain text has more characters

 private:
  void make_groups();

  std::vector<std::string> tokens_;
  std::vector<int32_t> ends_;  // sorted
  std::vector<Group> groups_;
  uint32_t longest_plain_text_ = 0;
};

// Whether plain text is made of this character.
constexpr bool is_plain_text(char32_t c) { return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F; }

}  // namespace bonsai::grammar
