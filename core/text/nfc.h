// Unicode normalisation form C (https://www.unicode.org/reports/tr15), with utf8proc's tables.
#pragma once

#include <string>
#include <string_view>

namespace bonsai::text {

// Time is O(n log n) whatever the text holds. Precondition: `text` is well-formed UTF-8.
std::string normalize_nfc(std::string_view text);

}  // namespace bonsai::text
