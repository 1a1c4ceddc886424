// Random text that is unkind to tokenizers, the same on every run.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "core/text/utf8.h"

namespace bonsai::text {

class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  // Any scalar value of any plane, assigned or not.
  char32_t any_code_point() {
    const char32_t code_point = below(0x110000 - 0x800);
    return code_point < 0xD800 ? code_point : code_point + 0x800;
  }

  // `parts` pieces of text: letters with marks, Hangul in parts, emoji sequences, line ends, digits, control
  // characters.
  std::string text(uint32_t parts) {
    std::string out;
    for (uint32_t i = 0; i < parts; ++i) append_part(out);
    return out;
  }

 private:
  void append_part(std::string &out) {
    switch (below(12)) {
      case 0:
        return append_utf8(out, any_code_point());
      case 1:
        return append_utf8(out, below(0x20));
      case 2:  // a letter and marks, in any order
        append_utf8(out, 'a' + below(26));
        for (uint32_t marks = below(6); marks > 0; --marks) append_utf8(out, 0x300 + below(0x70));
        return;
      case 3:  // Hangul leading consonants, vowels and finals, and their neighbours
        for (uint32_t jamo = below(5); jamo > 0; --jamo) append_utf8(out, 0x10FE + below(0x104));
        return;
      case 4:
        append_utf8(out, 0xAC00 + below(11172));
        return append_utf8(out, 0x11A0 + below(0x28));
      case 5:
        out += "\U0001F469\u200D\U0001F4BB\U0001F44D\U0001F3FD\U0001F1E9\U0001F1EA";
        return;
      case 6:
        out += below(2) == 0 ? "\r\n" : "\r\n\n \r";
        return;
      case 7:
        for (uint32_t digits = below(30); digits > 0; --digits) append_utf8(out, '0' + below(10));
        return;
      case 8:  // spaces of Unicode and what only looks like them
        append_utf8(out, std::u32string_view(U"\u0085\u00A0\u3000\u200B\u180E\u2028\u2003 ")[below(8)]);
        return;
      case 9:  // letters that have canonical decompositions, and singletons
        return append_utf8(out, std::u32string_view(U"\u212B\u1E9B\u0958\u0344\u0387\uFB2C\u1100\u2126")[below(8)]);
      case 10:
        out += below(2) == 0 ? " don't" : " I'LL";
        return;
      default:
        for (uint32_t letters = below(9); letters > 0; --letters) append_utf8(out, "abc <"[below(5)]);
    }
  }

  std::mt19937 random_;
};

}  // namespace bonsai::text
