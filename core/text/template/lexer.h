// Cuts a template into tokens, with the whitespace control that Hugging Face sets for chat templates: trim_blocks and
// lstrip_blocks, and one newline at the end left out (https://jinja.palletsprojects.com, "Whitespace Control").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace bonsai::jinja {

struct Token {
  // kData: text outside of tags. kPrintBegin, kPrintEnd: {{ and }}. kBlockBegin, kBlockEnd: {% and %}.
  enum class Kind : uint8_t {
    kData,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };

  Kind kind;
  uint32_t line;
  std::string text;     // strings without quotes and escapes, numbers without underscores
  int64_t integer = 0;  // of kInteger
};

// The last token is kEnd. Errors begin with "line N: ". Precondition: `source` is UTF-8.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace bonsai::jinja
