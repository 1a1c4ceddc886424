#include "core/grammar/schema_document.h"

#include <algorithm>
#include <limits>

#include "core/base/json_nesting.h"
#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"

namespace bonsai::grammar {
namespace {

// The JSON library looks a member up by going through all of them: of a longer text's, for seconds.
constexpr size_t kMostSchemaBytes = size_t{1} << 18;

// Whether each member of `a` is one of `b`. Most often they come in the same order, which saves the search.
bool has_members_of(const Json &a, const Json &b) {
  auto at = b.begin();
  for (const auto &[name, value] : a.items()) {
    auto same = at++;
    if (same.key() != name) same = b.find(name);
    if (same == b.end() || !is_same(value, *same)) return false;
  }
  return true;
}

}  // namespace

Result<Json> parse_schema_document(std::string_view json) {
  if (json.size() > kMostSchemaBytes)
    return fail("JSON schema of {} bytes is too long; expected at most {}", json.size(), kMostSchemaBytes);
  if (const size_t offset = find_invalid_utf8(json); offset != std::string_view::npos)
    return fail("JSON schema: invalid UTF-8 at byte offset {}", offset);
  if (is_nested_deeper(json, 2 * kMostNesting)) return fail("JSON schema: nested more than {} deep", 2 * kMostNesting);
  try {
    return Json::parse(json);
  } catch (const Json::parse_error &error) {
    const std::string message = error.what();
    const size_t begin = message.find("] ");
    return fail("JSON schema is not JSON: {}", begin == message.npos ? message : message.substr(begin + 2));
  } catch (const Json::out_of_range &) {
    return fail("JSON schema: holds a number that no double can hold");
  }
}

std::string text_of(const Json &value) { return value.dump(); }

long double number_of(const Json &number) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  if (number.is_number_unsigned()) return static_cast<long double>(number.get<uint64_t>());
  if (number.is_number_integer()) return static_cast<long double>(number.get<int64_t>());
  return static_cast<long double>(number.get<double>());
}

bool is_less(const Json &a, const Json &b) { return number_of(a) < number_of(b); }

bool is_same(const Json &a, const Json &b) {
  if (a.is_number() && b.is_number()) return number_of(a) == number_of(b);
  if (a.type() != b.type()) return false;
  if (!a.is_structured()) return a == b;
  if (a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), is_same);
  return has_members_of(a, b);
}

bool has_value(const Json &values, const Json &value) {
  return std::any_of(values.begin(), values.end(), [&](const Json &one) { return is_same(one, value); });
}

}  // namespace bonsai::grammar
