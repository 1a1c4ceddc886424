#include "core/grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "core/base/utf8.h"
#include "core/grammar/multiples.h"
#include "core/grammar/number_ranges.h"
#include "core/grammar/string_formats.h"

namespace bonsai::grammar {
namespace {

Json as_list(const Json &value) { return value.is_array() ? value : Json::array({value}); }

std::unordered_set<std::string> keys_of(const Json &values) {
  std::unordered_set<std::string> keys;
  for (const Json &value : values) keys.insert(key_of(value));
  return keys;
}

Json union_of(Json a, const Json &b) {
  std::unordered_set<std::string> keys = keys_of(a);
  for (const Json &value : b)
    if (keys.insert(key_of(value)).second) a.push_back(value);
  return a;
}

// Types that both lists allow; an integer is a number.
Json common_types(const Json &a, const Json &b) {
  Json common = Json::array();
  for (const Json &type : as_list(a)) {
    if (has_value(as_list(b), type) || (type == "integer" && has_value(as_list(b), "number"))) common.push_back(type);
  }
  for (const Json &type : as_list(b))
    if (type == "integer" && has_value(as_list(a), "number") && !has_value(common, type)) common.push_back(type);
  return common;
}

Json common_values(const Json &a, const Json &b) {
  const std::unordered_set<std::string> keys = keys_of(b);
  Json common = Json::array();
  for (const Json &value : a)
    if (keys.contains(key_of(value))) common.push_back(value);
  return common;
}

Json both(const Json &a, const Json &b) {
  if (is_same(a, b) || a == false || b == true) return a;
  if (b == false || a == true) return b;
  return Json{{"allOf", Json::array({a, b})}};
}

Json &member(Json &object, size_t number) {
  return std::next(object.get_ref<Json::object_t &>().begin(), static_cast<std::ptrdiff_t>(number))->second;
}

void append(Json &object, const std::string &name, Json value) {
  object.get_ref<Json::object_t &>().emplace_back(name, std::move(value));
}

bool is_closed(const Json &schema) {
  return schema.contains("additionalProperties") && schema["additionalProperties"] == false;
}

// What "additionalProperties" of one schema says of the properties that only the other one lists: a closed schema
// excludes them, which leaves nothing where one is among those that both ask for, and else is most likely a mistake;
// its own schema must hold for them as well.
SchemaResult<Json> with_additional(const Json &schema, Json properties, const Json &other, const Json &required) {
  if (!schema.contains("additionalProperties") || schema["additionalProperties"] == true) return properties;
  if (other.contains("patternProperties") &&
      (!schema.contains("patternProperties") || !is_same(schema["patternProperties"], other["patternProperties"])))
    return fail(
        "'additionalProperties' and the 'patternProperties' of a schema that must hold as well cannot be joined");
  if (!other.contains("properties") || !other["properties"].is_object()) return properties;
  // The other's properties are among `properties`, if these are there at all.
  static const Json kNone = Json::object();
  const Members own(schema.contains("properties") ? schema["properties"] : kNone), all(properties);
  const std::unordered_set<std::string> needed = keys_of(is_closed(schema) ? required : Json::array());
  std::optional<SchemaError> excluded;
  for (const auto &[name, unused] : other["properties"].items()) {
    if (own.find(name) != Members::npos) continue;
    if (is_closed(schema)) {
      const bool is_needed = needed.contains(key_of(name));
      if (is_needed || !excluded)
        excluded = SchemaError(
            Error{fmt::format("'additionalProperties': false excludes property {} of a schema that must hold as well",
                              bonsai::quoted(name))},
            is_needed);
      if (is_needed) break;
      continue;
    }
    if (schema.contains("patternProperties"))
      return fail("'additionalProperties' beside 'patternProperties' cannot be joined with property {}",
                  bonsai::quoted(name));
    Json &property = member(properties, all.find(name));
    property = both(property, schema["additionalProperties"]);
  }
  if (excluded) return tl::unexpected(*std::move(excluded));
  return properties;
}

Json merged_properties(const Json &a, const Json &b) {
  Json merged = a;
  const Members members(a);
  for (const auto &[name, schema] : b.items()) {
    const size_t number = members.find(name);
    if (number == Members::npos) {
      append(merged, name, schema);
      continue;
    }
    Json &property = member(merged, number);
    property = both(property, schema);
  }
  return merged;
}

size_t n_prefix_items(const Json &schema) {
  return schema.contains("prefixItems") && schema["prefixItems"].is_array() ? schema["prefixItems"].size() : 0;
}

// What a schema asks of an array's item at this place: its "items" hold behind its own "prefixItems" only.
Json item_at(const Json &schema, size_t index) {
  return index < n_prefix_items(schema) ? schema["prefixItems"][index] : schema.value("items", Json(true));
}

Json merged_prefix_items(const Json &a, const Json &b) {
  Json items = Json::array();
  for (size_t i = 0; i < std::max(n_prefix_items(a), n_prefix_items(b)); ++i)
    items.push_back(both(item_at(a, i), item_at(b, i)));
  return items;
}

// nullopt: there is none that is supported.
std::optional<Json> joined_divisors(const Json &a, const Json &b) {
  const auto left = parse_decimal(text_of(a)), right = parse_decimal(text_of(b));
  const auto both = left && right ? common_multiple(*left, *right) : std::nullopt;
  if (!both) return std::nullopt;
  if (both->fraction.empty()) return Json(std::stoull(both->whole));
  const std::string text = both->whole + "." + both->fraction;
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return Json(value);
}

bool is_known_format(const Json &format) {
  return !format.is_string() || format == "int32" || is_format(format.get_ref<const std::string &>());
}

// One more "pattern" or "format" that must hold.
void add_text(Json &merged, const std::string &keyword, const Json &text) {
  if (!merged.contains(keyword) ||
      (keyword == "format" && !is_known_format(merged[keyword]) && is_known_format(text))) {
    merged[keyword] = text;
    return;
  }
  if (merged[keyword] == text || (keyword == "format" && !is_known_format(text))) return;
  Json &further = merged[kFurtherTexts];
  if (!further.is_array()) further = Json::array();
  const Json one = {{keyword, text}};
  if (!has_value(further, one)) further.push_back(one);
}

// Whether the keyword was added as what there may be several of.
bool has_added_texts(Json &merged, const std::string &keyword, const Json &value) {
  if (keyword == kFurtherTexts) {
    for (const Json &part : value)
      for (const auto &[name, text] : part.items()) add_text(merged, name, text);
    return true;
  }
  if ((keyword != "pattern" && keyword != "format") || !value.is_string()) return false;
  if (merged.contains(keyword) && !merged[keyword].is_string()) return false;
  add_text(merged, keyword, value);
  return true;
}

SchemaResult<Json> merge_keyword(const std::string &keyword, const Json &a, const Json &b) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), keyword) != names.end();
  };
  if (is_same(a, b)) return a;
  if (keyword == "type") return common_types(a, b);
  if (is_one_of({"properties", "patternProperties"}) && a.is_object() && b.is_object()) return merged_properties(a, b);
  if (is_one_of({"required"}) && a.is_array() && b.is_array()) return union_of(a, b);
  if (keyword == "enum" && a.is_array() && b.is_array()) return common_values(a, b);
  if (is_one_of({"items", "additionalProperties", "propertyNames"})) return both(a, b);
  if (keyword == "uniqueItems" && a.is_boolean() && b.is_boolean()) return Json(a == true || b == true);
  if (a.is_number() && b.is_number()) {
    if (keyword == "multipleOf")
      if (auto divisor = joined_divisors(a, b)) return *std::move(divisor);
    const bool a_is_less = is_less(a, b);
    if (is_one_of({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})) return a_is_less ? b : a;
    if (is_one_of({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})) return a_is_less ? a : b;
  }
  const bool allows_nothing = keyword == "const";
  return tl::unexpected(SchemaError(
      {fmt::format("two different values of {} cannot be joined", bonsai::quoted(keyword))}, allows_nothing));
}

}  // namespace

size_t n_values(const Json &json) {
  size_t n = 1;
  if (json.is_structured())
    for (const Json &part : json) n += n_values(part);
  return n;
}

size_t n_repeated_values(const Json &a, const Json &b) {
  size_t n = 0;
  for (const auto &[one, other] : {std::pair{&a, &b}, {&b, &a}})
    if (other->contains("items")) n += n_prefix_items(*one) * n_values((*other)["items"]);
  return n;
}

bool excludes_nothing(std::string_view keyword, const Json &schema) {
  constexpr std::array<std::string_view, 23> kAnnotations = {
      "title",           "description",      "default",       "examples",     "example", "deprecated",
      "readOnly",        "writeOnly",        "$schema",       "$id",          "id",      "$anchor",
      "$vocabulary",     "$comment",         "$defs",         "definitions",  "strict",  "discriminator",
      "contentEncoding", "contentMediaType", "contentSchema", "externalDocs", "xml"};
  if (keyword == "if") return !schema.contains("then") && !schema.contains("else");
  if (keyword == "then" || keyword == "else") return !schema.contains("if");
  if (keyword == "minContains" || keyword == "maxContains") return !schema.contains("contains");
  return keyword.starts_with("x-") ||
         std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end();
}

Json without_annotations(const Json &schema) {
  Json rest = Json::object();
  for (const auto &[keyword, value] : schema.items())
    if (!excludes_nothing(keyword, schema)) rest[keyword] = value;
  return rest;
}

SchemaResult<Json> merge_schemas(const Json &a, const Json &b) {
  Json merged = without_annotations(a);
  for (const auto &[keyword, value] : b.items()) {
    if (excludes_nothing(keyword, b)) continue;
    if (has_added_texts(merged, keyword, value)) continue;
    if (!merged.contains(keyword)) {
      merged[keyword] = value;
      continue;
    }
    if (keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf") {
      if (is_same(merged[keyword], value)) continue;
      Json further = Json{{keyword, value}};
      Json &all = merged["allOf"];
      if (!all.is_array()) all = Json::array();
      if (keyword == "allOf" && value.is_array())
        all.insert(all.end(), value.begin(), value.end());
      else
        all.push_back(std::move(further));
      continue;
    }
    if (keyword == "prefixItems" && merged[keyword].is_array() && value.is_array()) continue;  // below
    auto joined = merge_keyword(keyword, merged[keyword], value);
    if (!joined) return joined;
    merged[keyword] = *std::move(joined);
  }
  if (n_prefix_items(a) + n_prefix_items(b) > 0) merged["prefixItems"] = merged_prefix_items(a, b);
  for (const auto &[one, other] : {std::pair{&a, &b}, {&b, &a}}) {
    if (!merged.contains("properties") && !other->contains("patternProperties")) continue;
    auto properties = with_additional(*one, merged.value("properties", Json::object()), *other,
                                      merged.value("required", Json::array()));
    if (!properties) return properties;
    if (merged.contains("properties")) merged["properties"] = *std::move(properties);
  }
  return merged;
}

}  // namespace bonsai::grammar
