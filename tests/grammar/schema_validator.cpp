#include "tests/grammar/schema_validator.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

using nlohmann::json;

bool is_of_type(const json &value, const std::string &type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

size_t length_of(const std::string &text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Characters, not bytes, are what a pattern counts.
std::wstring wide(const std::string &text) {
  std::wstring made;
  for (size_t at = 0; at < text.size();) made += static_cast<wchar_t>(text::next_code_point(text, at));
  return made;
}

bool finds(const std::string &text, const std::string &pattern) {
  return std::regex_search(wide(text), std::wregex(wide(pattern), std::regex::ECMAScript));
}

bool member_satisfies(const std::string &name, const json &member, const json &schema, const json &document) {
  bool mentioned = false;
  const auto holds = [&](const json &part) {
    mentioned = true;
    return satisfies(member, part, document);
  };
  if (schema.contains("propertyNames") && !satisfies(name, schema["propertyNames"], document)) return false;
  if (schema.contains("properties") && schema["properties"].contains(name) && !holds(schema["properties"][name]))
    return false;
  if (schema.contains("patternProperties")) {
    for (const auto &[pattern, part] : schema["patternProperties"].items())
      if (finds(name, pattern) && !holds(part)) return false;
  }
  return mentioned || !schema.contains("additionalProperties") ||
         satisfies(member, schema["additionalProperties"], document);
}

bool object_satisfies(const json &value, const json &schema, const json &document) {
  if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return false;
  if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
  for (const auto &[name, member] : value.items())
    if (!member_satisfies(name, member, schema, document)) return false;
  if (!schema.contains("required")) return true;
  return std::all_of(schema["required"].begin(), schema["required"].end(),
                     [&](const json &name) { return value.contains(name.get<std::string>()); });
}

bool array_satisfies(const json &value, const json &schema, const json &document) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
  if (schema.value("uniqueItems", false)) {
    for (size_t i = 0; i < value.size(); ++i)
      if (std::find(value.begin(), value.begin() + static_cast<ptrdiff_t>(i), value[i]) !=
          value.begin() + static_cast<ptrdiff_t>(i))
        return false;
  }
  const size_t n_prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < n_prefix) {
      if (!satisfies(value[i], schema["prefixItems"][i], document)) return false;
    } else if (schema.contains("items") && !satisfies(value[i], schema["items"], document)) {
      return false;
    }
  }
  return true;
}

// As decimals: of doubles, 0.07 would be no multiple of 0.01. Large numbers have no digits left to tell by.
bool is_multiple(double number, double divisor) {
  const long double quotient = static_cast<long double>(number) / divisor;
  return std::abs(quotient - std::round(quotient)) <= std::abs(quotient) * 1e-15L;
}

bool scalar_satisfies(const json &value, const json &schema) {
  if (value.is_string()) {
    const size_t length = length_of(value.get<std::string>());
    if (schema.contains("minLength") && length < schema["minLength"]) return false;
    if (schema.contains("maxLength") && length > schema["maxLength"]) return false;
    if (schema.contains("pattern") && !finds(value.get<std::string>(), schema["pattern"])) return false;
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return false;
    if (schema.contains("maximum") && number > schema["maximum"].get<double>()) return false;
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) return false;
    if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>()) return false;
    if (schema.contains("multipleOf") && !is_multiple(number, schema["multipleOf"].get<double>())) return false;
  }
  return true;
}

bool combinations_hold(const json &value, const json &schema, const json &document) {
  const auto holds = [&](const json &part) { return satisfies(value, part, document); };
  for (const char *keyword : {"anyOf", "oneOf"})
    if (schema.contains(keyword) && !std::any_of(schema[keyword].begin(), schema[keyword].end(), holds)) return false;
  if (schema.contains("allOf") && !std::all_of(schema["allOf"].begin(), schema["allOf"].end(), holds)) return false;
  return !schema.contains("$ref") ||
         holds(document.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))));
}

}  // namespace

bool satisfies(const json &value, const json &schema, const json &document) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const json &type) { return is_of_type(value, type); }))
      return false;
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return false;
  if (value.is_object() && !object_satisfies(value, schema, document)) return false;
  if (value.is_array() && !array_satisfies(value, schema, document)) return false;
  return scalar_satisfies(value, schema) && combinations_hold(value, schema, document);
}

bool is_document_of(const std::string &text, const json &document) {
  const auto value = json::parse(text, nullptr, false);
  return !value.is_discarded() && satisfies(value, document, document);
}

}  // namespace bonsai::grammar
