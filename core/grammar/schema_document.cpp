#include "core/grammar/schema_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "core/base/json_nesting.h"
#include "core/base/parse_json.h"
#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"

namespace bonsai::grammar {
namespace {

// The JSON library looks a member up by going through all of them: of a longer text's, for seconds.
constexpr size_t kMostSchemaBytes = size_t{1} << 18;

// Calls visit(begin, end) for each number of a JSON text.
template <class Visit>
void each_number(std::string_view json, Visit visit) {
  for (size_t at = 0; at < json.size(); ++at) {
    if (json[at] == '"') {
      for (++at; json[at] != '"'; ++at)
        if (json[at] == '\\') ++at;
    } else if (json[at] == '-' || (json[at] >= '0' && json[at] <= '9')) {
      const size_t end = std::min(json.find_first_not_of("+-.0123456789eE", at), json.size());
      visit(at, end);
      at = end - 1;
    }
  }
}

// A JSON number as `digits` * 10^exponent, the digits without zeros at either end: none for 0.
struct Scientific {
  bool negative = false;
  std::string digits;
  int64_t exponent = 0;
  bool operator==(const Scientific &) const = default;
};

Scientific scientific(std::string_view number) {
  Scientific made;
  made.negative = number.front() == '-';
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  if (e < number.size()) {
    const size_t begin = e + 1 + (number[e + 1] == '+');
    // One of more digits than that belongs to a number that has become 0.
    std::from_chars(number.data() + begin, number.data() + number.size(), made.exponent);
  }
  const std::string_view mantissa = number.substr(made.negative, e - made.negative);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  made.digits = mantissa.substr(0, point);
  if (point < mantissa.size()) {
    made.digits += mantissa.substr(point + 1);
    made.exponent -= static_cast<int64_t>(mantissa.size() - point - 1);
  }
  made.digits.erase(0, std::min(made.digits.find_first_not_of('0'), made.digits.size()));
  if (made.digits.empty()) return {};
  const size_t length = made.digits.find_last_not_of('0') + 1;
  made.exponent += static_cast<int64_t>(made.digits.size() - length);
  made.digits.resize(length);
  return made;
}

// In the fewest digits that make this double and no other.
std::string shortest(double number) { return fmt::format("{}", number); }

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
    return parse_json<Json>(json);
  } catch (const Json::parse_error &error) {
    const std::string message = error.what();
    const size_t begin = message.find("] ");
    return fail("JSON schema is not JSON: {}", begin == message.npos ? message : message.substr(begin + 2));
  } catch (const Json::out_of_range &) {
    return fail("JSON schema: holds a number that no double can hold");
  }
}

std::map<double, std::string> lossy_numbers(std::string_view json) {
  constexpr size_t kMostSafe = 15;  // a double holds that many digits, whatever they are
  std::map<double, std::string> lossy;
  each_number(json, [&](size_t begin, size_t end) {
    const std::string_view text = json.substr(begin, end - begin);
    if (text.size() <= kMostSafe && text.find_first_of("eE") == text.npos) return;
    const Json number = Json::parse(text);
    if (number.is_number_float() && scientific(text) != scientific(shortest(number.get<double>())))
      lossy.try_emplace(number.get<double>(), text);
  });
  return lossy;
}

std::string text_of(const Json &value) { return value.dump(); }

std::string written(const Json &value) {
  const std::string json = value.dump();
  if (!value.is_number_float() && !value.is_structured()) return json;
  std::string made;
  size_t done = 0;
  each_number(json, [&](size_t begin, size_t end) {
    const std::string_view text = std::string_view(json).substr(begin, end - begin);
    if (text.find_first_of(".eE") == text.npos) return;
    const std::string number = shortest(Json::parse(text).get<double>());
    const auto [negative, digits, exponent] = scientific(number);
    made.append(json, done, begin - done);
    if (exponent < 0)
      made += number;
    else
      made += (negative ? "-" : "") + (digits.empty() ? "0" : digits + std::string(static_cast<size_t>(exponent), '0'));
    done = end;
  });
  return made.append(json, done);
}

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
