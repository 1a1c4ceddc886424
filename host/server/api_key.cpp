#include "host/server/api_key.h"

#include <algorithm>

#include "host/server/api_error.h"

namespace bonsai::server {
namespace {

// The same time for every wrong key of this length.
bool are_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differ == 0;
}

// `word` is in lower case; `text` need not be.
bool begins_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
         });
}

}  // namespace

// A proxy's own login may be in the Authorization.
void check_key(std::string_view key, const HttpRequest &request) {
  constexpr std::string_view kBearer = "bearer ";
  if (key.empty() || are_equal(request.api_key, key)) return;
  const bool is_bearer = begins_with_word(request.authorization, kBearer);
  if (is_bearer && are_equal(std::string_view(request.authorization).substr(kBearer.size()), key)) return;
  if (is_bearer || !request.api_key.empty()) throw ApiError("wrong API key", 401, "invalid_api_key");
  throw ApiError("no API key: expected the header 'Authorization: Bearer KEY'", 401, "invalid_api_key");
}

}  // namespace bonsai::server
