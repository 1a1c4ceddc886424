#include "core/text/pre_tokenizer.h"

#include <cstdint>
#include <new>
#include <string>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/utf8.h"

namespace bonsai::text {
namespace {

struct KnownPattern {
  std::string_view pre;
  std::string_view pattern;  // as tokenizer.json has it
};

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The first name of a pattern is the one that we write. What a letter or digit is, the linked PCRE2 knows: characters
// that its Unicode has not yet are none.
constexpr KnownPattern kKnownPatterns[] = {
    {"qwen2", kQwen2Pattern},
    {"deepseek-r1-qwen", kQwen2Pattern},
    {"f2llmv2", kQwen2Pattern},
    {"kormo", kQwen2Pattern},
};

// Unicode's White_Space. PCRE2's \s differs from it (U+180E, and without UCP everything above U+007F), and the
// tokenizers that models are trained with mean this set.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// `pattern` with \s and \S spelled out. Precondition: no \S within a class, no "[" within one either.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view escape = pattern.substr(at, 2);
    if (escape == "\\s" || escape == "\\S") {
      if (!in_class) out += escape == "\\s" ? "[" : "[^";
      out += kWhiteSpace;
      if (!in_class) out += "]";
      ++at;
    } else if (pattern[at] == '\\') {
      out += escape;
      ++at;
    } else {
      if (pattern[at] == '[') in_class = true;
      if (pattern[at] == ']') in_class = false;
      out += pattern[at];
    }
  }
  return out;
}

std::string known_names() {
  std::string names;
  for (const KnownPattern &known : kKnownPatterns) {
    if (!names.empty()) names += ", ";
    names += bonsai::quoted(known.pre);
  }
  return names;
}

std::string error_text(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char *>(text);
}

}  // namespace

std::optional<std::string_view> pre_tokenizer_of_pattern(std::string_view pattern) {
  for (const KnownPattern &known : kKnownPatterns) {
    if (known.pattern == pattern) return known.pre;
  }
  return std::nullopt;
}

void PreTokenizer::Free::operator()(pcre2_code *code) const { pcre2_code_free(code); }
void PreTokenizer::Free::operator()(pcre2_match_context *context) const { pcre2_match_context_free(context); }
void PreTokenizer::Free::operator()(pcre2_match_data *match) const { pcre2_match_data_free(match); }

Result<PreTokenizer> PreTokenizer::create(std::string_view pre) {
  std::string_view pattern;
  for (const KnownPattern &known : kKnownPatterns) {
    if (known.pre == pre) pattern = known.pattern;
  }
  if (pattern.empty()) {
    return fail("tokenizer.ggml.pre is {}; known pre-tokenizers are {}", bonsai::quoted(pre), known_names());
  }
  const std::string source = with_unicode_spaces(pattern);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  PreTokenizer result;
  result.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), PCRE2_UTF, &error,
                                   &error_offset, nullptr));
  if (!result.code_) {
    return fail("tokenizer.ggml.pre {}: pattern, at byte {}: {}", bonsai::quoted(pre), error_offset, error_text(error));
  }
  // Where the system forbids executable memory there is no JIT; pcre2_match() then interprets, with the same matches.
  pcre2_jit_compile(result.code_.get(), PCRE2_JIT_COMPLETE);
  result.limits_.reset(pcre2_match_context_create(nullptr));
  if (!result.limits_) throw std::bad_alloc();
  // The limit guards against patterns that backtrack without end; ours are linear in a run of one kind of character,
  // and such a run may be longer than the default of ten million.
  pcre2_set_match_limit(result.limits_.get(), UINT32_MAX);
  return result;
}

WordCursor::WordCursor(const PreTokenizer &pattern, std::string_view text)
    : pattern_(pattern), text_(text), match_(pcre2_match_data_create(1, nullptr)) {
  if (!match_) throw std::bad_alloc();
}

Result<std::string_view> WordCursor::next() {
  if (at_ == text_.size()) return std::string_view();
  if (match_end_ <= at_) {
    const int found = pcre2_match(pattern_.code_.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match_.get(), pattern_.limits_.get());
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      return fail("pre-tokenizer failed at byte offset {}: {}", at_, error_text(found));
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match_.get());
    match_begin_ = found < 0 ? text_.size() : span[0];
    match_end_ = found < 0 ? text_.size() : span[1];
  }
  const size_t end = match_begin_ > at_ ? match_begin_ : match_end_;
  const std::string_view word = text_.substr(at_, end - at_);
  at_ = end;
  return word;
}

}  // namespace bonsai::text
