#include "core/text/byte_alphabet.h"

#include "core/text/utf8.h"

namespace bonsai::text {
namespace {

constexpr size_t kAlphabetEnd = 0x100 + 68;
constexpr int16_t kNoByte = -1;

constexpr std::array<int16_t, kAlphabetEnd> make_inverse() {
  std::array<int16_t, kAlphabetEnd> inverse{};
  for (int16_t &byte : inverse) byte = kNoByte;
  for (int16_t byte = 0; byte < 256; ++byte) inverse[kByteAlphabet[static_cast<size_t>(byte)]] = byte;
  return inverse;
}
constexpr std::array<int16_t, kAlphabetEnd> kByteOfCharacter = make_inverse();

}  // namespace

void append_bytes_of_spelling(std::string_view spelling, std::string &out) {
  const size_t start = out.size();
  for (size_t at = 0; at < spelling.size();) {
    const char32_t character = next_code_point(spelling, at);
    const int16_t byte = character < kAlphabetEnd ? kByteOfCharacter[character] : kNoByte;
    if (byte == kNoByte) {
      out.resize(start);
      out += spelling;
      return;
    }
    out += static_cast<char>(byte);
  }
}

}  // namespace bonsai::text
