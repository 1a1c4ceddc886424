// JSON texts that come from elsewhere.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace bonsai {

// nlohmann::json's parse(text), which takes a NUL for the text's end and so would pass over whatever stands behind it:
// here it is a character like any other that JSON does not have.
template <class Json>
Json parse_json(std::string_view text, bool allow_exceptions = true) {
  if (text.find('\0') == text.npos) return Json::parse(text, nullptr, allow_exceptions);
  std::string refused(text);
  std::replace(refused.begin(), refused.end(), '\0', '\1');
  return Json::parse(refused, nullptr, allow_exceptions);
}

}  // namespace bonsai
