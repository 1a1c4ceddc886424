// The byte alphabet of GPT-2: every byte has a printable character, so that a vocabulary of bytes can be kept as text
// (https://github.com/openai/gpt-2, encoder.py: bytes_to_unicode).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace bonsai::text {

// The character of each byte: printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 in order.
constexpr std::array<char32_t, 256> make_byte_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}
inline constexpr std::array<char32_t, 256> kByteAlphabet = make_byte_alphabet();

// Appends the bytes that a spelling in this alphabet stands for. A spelling with any other character was never a
// byte-level one and is appended as it is. Precondition: `spelling` is well-formed UTF-8.
void append_bytes_of_spelling(std::string_view spelling, std::string &out);

}  // namespace bonsai::text
