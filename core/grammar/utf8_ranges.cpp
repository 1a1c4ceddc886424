#include "core/grammar/utf8_ranges.h"

#include <algorithm>

namespace bonsai::grammar {
namespace {

constexpr char32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};

uint32_t length_of(char32_t code_point) {
  uint32_t length = 1;
  while (code_point > kLastOfLength[length - 1]) ++length;
  return length;
}

std::array<uint8_t, 4> encode(char32_t code_point, uint32_t length) {
  constexpr uint8_t kLead[] = {0x00, 0xC0, 0xE0, 0xF0};
  std::array<uint8_t, 4> bytes{};
  for (uint32_t i = length - 1; i > 0; --i, code_point >>= 6) bytes[i] = static_cast<uint8_t>(0x80 | (code_point & 63));
  bytes[0] = static_cast<uint8_t>(kLead[length - 1] | code_point);
  return bytes;
}

// Where to cut a range of one length so that the first piece is a product of byte ranges: all of its bytes behind the
// first that differs run from 0x80 to 0xBF. Returns the last code point of that piece.
char32_t last_of_piece(CodePoints range, uint32_t length) {
  for (uint32_t i = 1; i < length; ++i) {
    const char32_t low_bits = (char32_t{1} << (6 * i)) - 1;
    if ((range.first & ~low_bits) == (range.last & ~low_bits)) continue;
    if ((range.first & low_bits) != 0) return range.first | low_bits;
    if ((range.last & low_bits) != low_bits) range.last = (range.last & ~low_bits) - 1;
  }
  return range.last;
}

}  // namespace

void append_utf8_sequences(CodePoints range, std::vector<ByteSequence> &out) {
  while (range.first <= range.last) {
    const uint32_t length = length_of(range.first);
    CodePoints piece = {range.first, std::min(range.last, kLastOfLength[length - 1])};
    piece.last = last_of_piece(piece, length);
    const auto first = encode(piece.first, length), last = encode(piece.last, length);
    ByteSequence sequence{{}, length};
    for (uint32_t i = 0; i < length; ++i) sequence.ranges[i] = {first[i], last[i]};
    out.push_back(sequence);
    range.first = piece.last + 1;
  }
}

}  // namespace bonsai::grammar
