#include "core/text/same_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/utf8.h"

namespace bonsai::text {

std::string first_difference(const Tokenizer &expected, const Tokenizer &found) {
  const auto n = static_cast<int32_t>(std::min(expected.size(), found.size()));
  for (int32_t id = 0; id < n; ++id) {
    if (found.spelling(id) != expected.spelling(id))
      return fmt::format("token {} to be {} instead of {}", id, quoted(found.spelling(id)),
                         quoted(expected.spelling(id)));
  }
  return {};
}

}  // namespace bonsai::text
