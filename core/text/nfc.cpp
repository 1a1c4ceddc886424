#include "core/text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/text/utf8.h"

namespace bonsai::text {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

// The first byte of every code point below U+0300 is below this one.
constexpr uint8_t kFirstByteOfCombining = 0xCC;

// U+11A7 stands one before the first Hangul final consonant. utf8proc 2.8 takes it for "final consonant number 0" and
// drops it behind a syllable; a piece that begins with it is safe, because it combines with nothing.
constexpr char32_t kBeforeHangulFinals = 0x11A7;

constexpr auto kCanonical = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

utf8proc_propval_t combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

void append_decomposition(char32_t code_point, CodePoints &out) {
  constexpr utf8proc_ssize_t kMostParts = 8;  // Unicode's longest canonical decomposition has 4
  utf8proc_int32_t parts[kMostParts];
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, kMostParts, kCanonical, &boundary);
  out.insert(out.end(), parts, parts + count);
}

// Canonical ordering: each run of marks is sorted by combining class. utf8proc's own is an insertion sort, which takes
// hours over a megabyte of mixed marks.
void order_marks(CodePoints &code_points) {
  const auto is_mark = [](utf8proc_int32_t code_point) { return combining_class(code_point) != 0; };
  const auto lower = [](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); };
  auto run = code_points.begin();
  while ((run = std::find_if(run, code_points.end(), is_mark)) != code_points.end()) {
    const auto end = std::find_if_not(run, code_points.end(), is_mark);
    if (!std::is_sorted(run, end, lower)) std::stable_sort(run, end, lower);
    run = end;
  }
}

// Normalises one piece into `out`; `scratch` keeps its memory from piece to piece.
void append_normalized(std::string_view piece, CodePoints &scratch, std::string &out) {
  scratch.clear();
  for (size_t at = 0; at < piece.size();) append_decomposition(next_code_point(piece, at), scratch);
  order_marks(scratch);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(scratch.data(), static_cast<utf8proc_ssize_t>(scratch.size()), kCanonical);
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(out, static_cast<char32_t>(scratch[i]));
}

// The end of the piece that begins at `begin`: behind it comes a character that combines with nothing before it.
size_t end_of_piece(std::string_view text, size_t begin) {
  size_t at = begin;
  next_code_point(text, at);
  while (at < text.size() && static_cast<uint8_t>(text[at]) >= kFirstByteOfCombining) {
    size_t next = at;
    if (next_code_point(text, next) == kBeforeHangulFinals) return at;
    at = next;
  }
  return at;
}

}  // namespace

// Every character below U+0300 is in NFC and combines with nothing before it. So text that has no others is copied, and
// the rest is normalised in pieces: one such character and what follows above U+0300.
std::string normalize_nfc(std::string_view text) {
  const auto combines = [](char c) { return static_cast<uint8_t>(c) >= kFirstByteOfCombining; };
  std::string out;
  out.reserve(text.size());
  CodePoints scratch;
  size_t copied = 0;
  while (true) {
    const auto found = std::find_if(text.begin() + static_cast<ptrdiff_t>(copied), text.end(), combines);
    size_t begin = static_cast<size_t>(found - text.begin());
    if (begin == text.size()) break;
    // The starter in front, of one byte or two, may take up the marks.
    if (begin > copied) --begin;
    if (begin > copied && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    out += text.substr(copied, begin - copied);
    copied = end_of_piece(text, begin);
    append_normalized(text.substr(begin, copied - begin), scratch, out);
  }
  out += text.substr(copied);
  return out;
}

}  // namespace bonsai::text
