// A tokenizer small enough to see through: the 256 bytes, a handful of merges and a few special tokens.
#pragma once

#include <string>

#include "core/text/byte_alphabet.h"
#include "core/text/tokenizer.h"
#include "core/text/utf8.h"

namespace bonsai::text {

// Ids 0 to 255 are the bytes; then come ab, abc, bc, aa, aaaa, " a"; then the special tokens.
inline constexpr int32_t kAb = 256, kAbc = 257, kBc = 258, kAa = 259, kAaaa = 260, kSpaceA = 261;
inline constexpr int32_t kEndOfText = 262, kImStart = 263, kImEnd = 264, kThink = 265, kThinking = 266, kPad267 = 267;

inline TokenizerData tiny_tokenizer_data() {
  TokenizerData data;
  for (const char32_t character : kByteAlphabet) append_utf8(data.tokens.emplace_back(), character);
  for (const char *token : {"ab", "abc", "bc", "aa", "aaaa", "\u0120a"}) data.tokens.emplace_back(token);
  data.types.assign(data.tokens.size(), 1);
  const auto add = [&](const char *token, int32_t type) {
    data.tokens.emplace_back(token);
    data.types.push_back(type);
  };
  add("<|endoftext|>", 3);
  add("<|im_start|>", 3);
  add("<|im_end|>", 3);
  add("<think>", 4);
  add("<think>ing", 4);
  add("[PAD267]", 5);
  data.merges = {"b c", "a b", "ab c", "a a", "aa aa", "\u0120 a"};
  data.pre = "qwen2";
  data.bos = kEndOfText;
  data.eos = kImEnd;
  data.pad = kEndOfText;
  data.chat_template = "{{ messages }}";
  return data;
}

}  // namespace bonsai::text
