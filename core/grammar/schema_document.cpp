#include "core/grammar/schema_document.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "core/base/json_nesting.h"
#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"

namespace bonsai::grammar {
namespace {

// The JSON library looks a member up by going through all of them: of a longer text's, for seconds.
constexpr size_t kMostSchemaBytes = size_t{1} << 18;

// Whether each member of `a` is one of `b`. Most often they come in the same order, which saves the search.
bool has_members_of(const Json &a, const Json &b) {
  std::optional<Members> members;
  const auto begin = b.get_ref<const Json::object_t &>().begin();
  size_t at = 0;
  for (const auto &[name, value] : a.items()) {
    auto same = std::next(begin, static_cast<std::ptrdiff_t>(at++));
    if (same->first != name) {
      if (!members) members.emplace(b);
      const size_t number = members->find(name);
      if (number == Members::npos) return false;
      same = std::next(begin, static_cast<std::ptrdiff_t>(number));
    }
    if (!is_same(value, same->second)) return false;
  }
  return true;
}

// Of a number that is whole and has at most 64 bits as that, however it was spelled; others are doubles.
std::string key_of_number(const Json &number) {
  if (!number.is_number_float()) return number.dump();
  const auto value = number.get<double>();
  if (value != std::floor(value) || value < -0x1p63 || value >= 0x1p64) return number.dump();
  return value < 0 ? std::to_string(static_cast<int64_t>(value)) : std::to_string(static_cast<uint64_t>(value));
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

std::string key_of(const Json &value) {
  if (value.is_number()) return key_of_number(value);
  if (!value.is_structured()) return value.dump();
  std::string key;
  if (value.is_array()) {
    for (const Json &item : value) key += key_of(item) + ",";
    return "[" + key + "]";
  }
  std::map<std::string, std::string> members;
  for (const auto &[name, member] : value.items()) members[Json(name).dump()] = key_of(member);
  for (const auto &[name, member] : members) key += name + ":" + member + ",";
  return "{" + key + "}";
}

Members::Members(const Json &object) {
  size_t n = 0;
  for (const auto &member : object.get_ref<const Json::object_t &>()) numbers_.try_emplace(member.first, n++);
}

size_t Members::find(const std::string &name) const {
  const auto at = numbers_.find(name);
  return at == numbers_.end() ? npos : at->second;
}

bool has_value(const Json &values, const Json &value) {
  return std::any_of(values.begin(), values.end(), [&](const Json &one) { return is_same(one, value); });
}

}  // namespace bonsai::grammar
