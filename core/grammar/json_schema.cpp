#include "core/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/json_text.h"
#include "core/grammar/schema_merge.h"
#include "core/grammar/schema_references.h"
#include "core/grammar/schema_scalars.h"
#include "core/grammar/schema_translator.h"

namespace bonsai::grammar {
namespace {

// Subschemas looked at in all, as schemas that refer to each other could unfold without end.
constexpr size_t kMostSchemas = 20000;
// Values in all pairs of schemas that are joined, each of which is copied: a second at most.
constexpr size_t kMostJoined = size_t{1} << 20;
// Steps for all languages of a schema: two seconds at most.
constexpr size_t kMostEffort = size_t{3} << 24;
// Values that are listed one by one.
constexpr size_t kMostListed = 1000;

constexpr std::array<std::string_view, 7> kObjectKeywords = {
    "properties",    "required",      "additionalProperties", "patternProperties",
    "propertyNames", "minProperties", "maxProperties"};
constexpr std::array<std::string_view, 5> kArrayKeywords = {"items", "prefixItems", "minItems", "maxItems",
                                                            "uniqueItems"};
constexpr std::array<std::string_view, 4> kStringKeywords = {"minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 5> kNumberKeywords = {"minimum", "maximum", "exclusiveMinimum",
                                                             "exclusiveMaximum", "multipleOf"};
constexpr std::array<std::string_view, 4> kNumberFormats = {"int32", "int64", "float", "double"};  // OpenAPI's
constexpr std::array<std::string_view, 7> kOtherKeywords = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};

template <size_t n>
bool is_one_of(const std::array<std::string_view, n> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_known(std::string_view keyword) {
  return is_one_of(kObjectKeywords, keyword) || is_one_of(kArrayKeywords, keyword) ||
         is_one_of(kStringKeywords, keyword) || is_one_of(kNumberKeywords, keyword) ||
         is_one_of(kOtherKeywords, keyword) || keyword == kFurtherTexts;
}

bool has_type(const Json &value, const std::string &type) {
  if (type == "integer")
    return value.is_number_integer() || (value.is_number_float() && value == std::floor(value.get<double>()));
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

// The type of the values that a keyword speaks of, or empty: of any.
std::string_view type_of(std::string_view keyword, const Json &value) {
  if (is_one_of(kObjectKeywords, keyword)) return "object";
  if (is_one_of(kArrayKeywords, keyword)) return "array";
  if (is_one_of(kNumberKeywords, keyword)) return "number";
  if (!is_one_of(kStringKeywords, keyword)) return "";
  const bool is_numbers =
      keyword == "format" && value.is_string() && is_one_of(kNumberFormats, value.get_ref<const std::string &>());
  return is_numbers ? "number" : "string";
}

// "type", or what the first keyword says that belongs to one; empty: any.
SchemaResult<std::vector<std::string>> types_of(const Json &bare, const std::string &pointer) {
  constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                      "integer", "boolean", "null"};
  std::vector<std::string> types;
  if (bare.contains("type")) {
    const Json &type = bare["type"];
    if (type.is_array() && type.empty()) return nothing_at(pointer, "'type': no type is left that is allowed");
    for (const Json &name : type.is_array() ? type : Json::array({type})) {
      if (!name.is_string() || !is_one_of(kTypes, name.get_ref<const std::string &>()))
        return fail_at(pointer, "'type': expected object, array, string, number, integer, boolean or null, found {}",
                       bonsai::quoted(text_of(name)));
      types.push_back(name);
    }
  } else {
    for (const auto &[keyword, value] : bare.items()) {
      const std::string_view type = type_of(keyword, value);
      if (type.empty()) continue;
      types.emplace_back(type);
      break;
    }
  }
  return types;
}

// The values of enum and const. Other keywords beside them would have to be tested on each value.
SchemaResult<Json> allowed_values(const Json &bare, const std::string &pointer) {
  for (const auto &[keyword, unused] : bare.items())
    if (keyword != "enum" && keyword != "const" && keyword != "type")
      return fail_at(pointer, "keyword {} beside 'enum' or 'const' is not supported", bonsai::quoted(keyword));
  const bool is_one = bare.contains("const");
  const Json allowed = is_one ? Json::array({bare["const"]}) : bare["enum"];
  if (!allowed.is_array()) return fail_at(pointer, "'enum': expected a list of values");
  if (allowed.empty()) return nothing_at(pointer, "'enum': no value is left that is allowed");
  const auto types = types_of(bare, pointer);
  if (!types) return tl::unexpected(types.error());
  Json values = Json::array();
  for (const Json &value : allowed) {
    const bool in_enum =
        !is_one || !bare.contains("enum") || !bare["enum"].is_array() || has_value(bare["enum"], value);
    const bool of_type = types->empty() || std::any_of(types->begin(), types->end(),
                                                       [&](const auto &type) { return has_type(value, type); });
    if (in_enum && of_type) values.push_back(value);
  }
  if (values.empty()) return nothing_at(pointer, "no value is of the type and in both 'enum' and 'const'");
  return values;
}

std::optional<int64_t> small_integer(const Json &schema, const char *keyword) {
  if (!schema.contains(keyword) || !schema[keyword].is_number_integer()) return std::nullopt;
  const long double value = number_of(schema[keyword]);
  return value >= -1000000 && value <= 1000000 ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

// Whole numbers from "minimum" to "maximum", where these are the only keywords.
std::optional<Json> listed_integers(const Json &bare) {
  const auto least = small_integer(bare, "minimum"), most = small_integer(bare, "maximum");
  if (!least || !most || bare.size() > 3 || *most - *least >= static_cast<int64_t>(kMostListed)) return std::nullopt;
  Json values = Json::array();
  for (int64_t value = *least; value <= *most; ++value) values.push_back(value);
  return values;
}

// One of several, of which those that allow nothing are left out unless all do.
class Alternatives {
 public:
  explicit Alternatives(Effort &effort) : effort_(effort), kept_(effort.kept()) {}

  // Behind each that is made with this effort.
  SchemaResult<void> add(SchemaResult<Expression> way) {
    if (!way && way.error().allows_nothing) effort_.keep_only(kept_);
    kept_ = effort_.kept();
    if (way) {
      ways_.push_back(*std::move(way));
    } else if (!way.error().allows_nothing) {
      return tl::unexpected(std::move(way.error()));
    } else if (!nothing_) {
      nothing_ = std::move(way.error());
    }
    return {};
  }

  // Precondition: at least one was added.
  SchemaResult<Expression> take() && {
    if (ways_.empty()) return tl::unexpected(*std::move(nothing_));
    return choice(std::move(ways_));
  }

 private:
  Effort &effort_;
  size_t kept_;  // by what is not left out
  std::vector<Expression> ways_;
  std::optional<SchemaError> nothing_;  // why the first that allows nothing does not
};

}  // namespace

Place Place::below(std::string_view name) const { return {pointer + as_pointer(name), depth}; }

Translator::Translator(const Json &document, std::map<double, std::string> lossy)
    : document_(document), lossy_(std::move(lossy)), effort_(kMostEffort) {
  set_.rules = json_rules();
}

Result<RuleSet> Translator::translate() {
  const auto root = add_rule("root");
  if (!root) return tl::unexpected(root.error());
  set_.root = *root;
  referenced_[""] = *root;
  open_.push_back({&document_, "", *root});
  // Subschemas that are referred to are translated one after the other, however they refer to each other.
  while (!open_.empty()) {
    const Open next = open_.front();
    open_.pop_front();
    auto body = schema(*next.schema, {next.pointer});
    if (!body) return tl::unexpected(body.error());
    set_.rules[next.rule].body = *std::move(body);
  }
  return std::move(set_);
}

SchemaResult<uint32_t> Translator::add_rule(std::string name) {
  if (set_.rules.size() == kMostRules) return fail("JSON schema too large: it needs more than {} rules", kMostRules);
  set_.rules.push_back({std::move(name), {}, false});
  return static_cast<uint32_t>(set_.rules.size() - 1);
}

SchemaResult<Expression> Translator::as_rule(Expression body, const std::string &pointer) {
  const auto rule = add_rule("#" + pointer);
  if (!rule) return tl::unexpected(rule.error());
  set_.rules[*rule].body = std::move(body);
  return call(*rule);
}

SchemaResult<Expression> Translator::schema(const Json &json, const Place &outer) {
  const Place place = {outer.pointer, outer.depth + 1};
  const std::string &pointer = place.pointer;
  if (++n_schemas_ > kMostSchemas || outer.depth > kMostNesting)
    return fail_at(pointer, "too large, or without end: subschemas unfold to more than {}, or more than {} deep",
                   kMostSchemas, kMostNesting);
  if (json == true) return call(kValue);
  if (json == false) return nothing_at(pointer, "false allows no value at all");
  if (!json.is_object()) return fail_at(pointer, "expected an object, true or false, found {}", json.type_name());
  for (const auto &[keyword, unused] : json.items()) {
    if (!excludes_nothing(keyword, json) && !is_known(keyword))
      return fail_at(pointer, "keyword {} is not supported", bonsai::quoted(keyword));
  }
  const Json bare = without_annotations(json);
  if (bare.empty()) return call(kValue);
  if (bare.contains("$ref")) return reference(bare, place);
  if (bare.contains("allOf")) {
    const Json &parts = bare["allOf"];
    if (bare.size() == 1 && parts.is_array() && parts.size() == 1) return schema(parts[0], place.below("allOf").at(0));
    const auto merged = joined(bare, pointer);
    return merged ? schema(*merged, place) : tl::unexpected(merged.error());
  }
  for (const char *keyword : {"anyOf", "oneOf"})
    if (bare.contains(keyword)) return any_of(bare, keyword, place);
  if (bare.contains("enum") || bare.contains("const")) {
    const auto allowed = listed_values(bare, pointer);
    if (!allowed) return tl::unexpected(allowed.error());
    std::vector<Expression> ways;
    for (const Json &value : *allowed) ways.push_back(listed(value, 1));
    return choice(std::move(ways));
  }
  return by_type(bare, place);
}

// What a $ref names, a JSON pointer in a fragment (RFC 6901, section 6).
SchemaResult<const Json *> Translator::resolve(const Json &reference, const std::string &pointer) const {
  if (!reference.is_string()) return fail_at(pointer, "'$ref': expected a text, found {}", reference.type_name());
  const auto &uri = reference.get_ref<const std::string &>();
  const std::string text = without_percents(uri);
  if (!uri.starts_with('#') || (text.size() > 1 && text[1] != '/'))
    return fail_at(pointer, "'$ref': expected '#' and a path within the document, found {}", bonsai::quoted(uri));
  const Json *at = &document_;
  for (const std::string &name : names_of_pointer(std::string_view(text).substr(1))) {
    at = part_of(*at, name);
    if (at == nullptr) return fail_at(pointer, "'$ref': there is nothing at {}", bonsai::quoted(text));
  }
  return at;
}

SchemaResult<Expression> Translator::reference(const Json &bare, const Place &place) {
  const auto target = resolve(bare["$ref"], place.pointer);
  if (!target) return tl::unexpected(target.error());
  if (bare.size() > 1) {
    Json rest = bare;
    rest.erase("$ref");
    return schema(Json{{"allOf", Json::array({**target, rest})}}, place);
  }
  const std::string name = without_percents(bare["$ref"].get_ref<const std::string &>()).substr(1);
  if (const auto known = referenced_.find(name); known != referenced_.end()) return call(known->second);
  const auto rule = add_rule("#" + name);
  if (!rule) return tl::unexpected(rule.error());
  referenced_[name] = *rule;
  open_.push_back({*target, name, *rule});
  return call(*rule);
}

// The schema itself, or the one that it refers to and nothing else.
SchemaResult<Json> Translator::without_reference(const Json &json, const std::string &pointer) const {
  Json at = json;
  for (uint32_t n = 0; at.is_object() && at.contains("$ref"); ++n) {
    if (n == kMostNesting) return fail_at(pointer, "'$ref' leads round in a circle");
    const auto target = resolve(at["$ref"], pointer);
    if (!target) return tl::unexpected(target.error());
    Json rest = without_annotations(at);
    rest.erase("$ref");
    at = rest.empty() ? **target : Json{{"allOf", Json::array({**target, rest})}};
  }
  return at;
}

SchemaResult<void> Translator::count_joined(size_t n, const std::string &pointer) const {
  n_joined_ += n;
  if (n_joined_ > kMostJoined)
    return fail_at(pointer, "too large: schemas that must hold together have more than {} values in all", kMostJoined);
  return {};
}

SchemaResult<Json> Translator::merge(const Json &a, const Json &b, const std::string &pointer) const {
  if (auto ok = count_joined(n_values(a) + n_values(b), pointer); !ok) return tl::unexpected(ok.error());
  for (const Json *one : {&a, &b}) {
    if (*one == true) return one == &a ? b : a;
    if (*one == false) return nothing_at(pointer, "false allows no value at all");
    if (!one->is_object()) return fail_at(pointer, "expected a schema, found {}", text_of(*one));
  }
  const auto left = without_reference(a, pointer), right = without_reference(b, pointer);
  for (const auto *one : {&left, &right})
    if (!*one) return *one;
  if (!left->is_object() || !right->is_object()) return merge(*left, *right, pointer);
  if (left->contains("multipleOf") && right->contains("multipleOf")) {
    for (const auto *one : {&left, &right})
      if (auto ok = check_exact((**one)["multipleOf"], "multipleOf", pointer); !ok) return tl::unexpected(ok.error());
  }
  // Each is copied once more, and translated on its own.
  if (auto ok = count_joined(2 * n_repeated_values(*left, *right), pointer); !ok) return tl::unexpected(ok.error());
  auto merged = merge_schemas(*left, *right);
  if (merged) return merged;
  if (merged.error().allows_nothing) return nothing_at(pointer, "{}", merged.error().message);
  return fail_at(pointer, "{}", merged.error().message);
}

// What "allOf" and the keywords beside it ask for, as one schema.
SchemaResult<Json> Translator::joined(const Json &bare, const std::string &pointer) const {
  const Json &parts = bare["allOf"];
  if (!parts.is_array() || parts.empty()) return fail_at(pointer, "'allOf': expected a list of schemas");
  Json merged = bare;
  merged.erase("allOf");
  for (const Json &part : parts) {
    auto next = merge(merged, part, pointer);
    if (!next) return next;
    merged = *std::move(next);
  }
  return merged;
}

SchemaResult<Expression> Translator::any_of(const Json &bare, const std::string &keyword, const Place &place) {
  const Json &alternatives = bare[keyword];
  if (!alternatives.is_array() || alternatives.empty())
    return fail_at(place.pointer, "{}: expected a list of schemas", bonsai::quoted(keyword));
  Json rest = bare;
  rest.erase(keyword);
  Alternatives ways(effort_);
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const Place at = place.below(keyword).at(i);
    const auto merged = rest.empty() ? SchemaResult<Json>(alternatives[i]) : merge(rest, alternatives[i], at.pointer);
    if (auto ok = ways.add(merged ? schema(*merged, at) : tl::unexpected(merged.error())); !ok)
      return tl::unexpected(ok.error());
  }
  return std::move(ways).take();
}

SchemaResult<Expression> Translator::by_type(const Json &bare, const Place &place) {
  const auto types = types_of(bare, place.pointer);
  if (!types) return tl::unexpected(types.error());
  if (types->empty()) return call(kValue);
  Alternatives ways(effort_);
  for (const std::string &type : *types)
    if (auto ok = ways.add(of_type(type, bare, place)); !ok) return tl::unexpected(ok.error());
  return std::move(ways).take();
}

// A format takes hundreds of states: strings of which nothing else is said share a rule.
SchemaResult<Expression> Translator::string(const Json &bare, const Place &place) {
  const bool is_alone = bare.contains("format") && bare["format"].is_string() && !bare.contains("pattern") &&
                        !bare.contains(kFurtherTexts) && !bare.contains("minLength") && !bare.contains("maxLength");
  if (!is_alone) return string_schema(bare, place.pointer, effort_);
  const auto [known, is_new] = formats_.try_emplace(bare["format"], 0);
  if (!is_new) return call(known->second);
  auto text = string_schema(bare, place.pointer, effort_);
  if (!text) return text;
  const auto rule = add_rule(known->first);
  if (!rule) return tl::unexpected(rule.error());
  set_.rules[*rule].body = *std::move(text);
  known->second = *rule;
  return call(*rule);
}

SchemaResult<Expression> Translator::number(const Json &bare, bool whole_numbers, const Place &place) {
  for (const char *keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}) {
    if (!bare.contains(keyword) || !bare[keyword].is_number() || std::abs(bare[keyword].get<double>()) >= 1e18)
      continue;
    if (auto ok = check_exact(bare[keyword], keyword, place.pointer); !ok) return tl::unexpected(ok.error());
  }
  return number_schema(bare, whole_numbers, place.pointer, effort_);
}

SchemaResult<Expression> Translator::of_type(const std::string &type, const Json &bare, const Place &place) {
  if (type == "object") return object_schema(*this, bare, place);
  if (type == "array") return array_schema(*this, bare, place);
  if (type == "string") return string(bare, place);
  if (type == "number" || type == "integer") return number(bare, type == "integer", place);
  if (type == "boolean") return choice({literal("true"), literal("false")});
  return literal("null");
}

SchemaResult<void> Translator::check_exact(const Json &value, const char *keyword, const std::string &pointer) const {
  if (value.is_structured()) {
    for (const Json &part : value)
      if (auto ok = check_exact(part, keyword, pointer); !ok) return ok;
  }
  const auto lossy = value.is_number_float() ? lossy_.find(value.get<double>()) : lossy_.end();
  if (lossy == lossy_.end()) return {};
  return fail_at(pointer, "'{}': expected numbers that a double holds to the last digit, found {}", keyword,
                 bonsai::quoted(lossy->second));
}

Expression Translator::listed(const Json &value, size_t n_copies) {
  return listed_value(value, spacing_.spend(value, n_copies));
}

SchemaResult<Json> Translator::listed_values(const Json &bare, const std::string &pointer) const {
  auto values = allowed_values(bare, pointer);
  if (!values || lossy_.empty()) return values;
  const char *const keyword = bare.contains("const") ? "const" : "enum";
  if (auto ok = check_exact(*values, keyword, pointer); !ok) return tl::unexpected(ok.error());
  return values;
}

SchemaResult<std::optional<Json>> Translator::finite_values(const Json &json, const Place &outer) const {
  const Place place = {outer.pointer, outer.depth + 1};
  const auto resolved = without_reference(json, place.pointer);
  if (!resolved) return tl::unexpected(resolved.error());
  if (!resolved->is_object() || place.depth > kMostNesting) return std::nullopt;
  const Json bare = without_annotations(*resolved);
  if (bare.contains("allOf")) {
    const auto merged = joined(bare, place.pointer);
    return merged ? finite_values(*merged, place) : tl::unexpected(merged.error());
  }
  for (const char *keyword : {"anyOf", "oneOf"})
    if (bare.contains(keyword)) return values_of_any(bare, keyword, place);
  if (bare.contains("enum") || bare.contains("const")) {
    auto values = listed_values(bare, place.pointer);
    if (!values) return tl::unexpected(values.error());
    return *std::move(values);
  }
  if (bare == Json{{"type", "boolean"}}) return Json::array({true, false});
  if (bare == Json{{"type", "null"}}) return Json::array({nullptr});
  if (bare.contains("type") && bare["type"] == "integer") return listed_integers(bare);
  return std::nullopt;
}

SchemaResult<std::optional<Json>> Translator::values_of_any(const Json &bare, const char *keyword,
                                                            const Place &place) const {
  if (!bare[keyword].is_array()) return std::nullopt;
  Json rest = bare, all = Json::array();
  rest.erase(keyword);
  for (const Json &alternative : bare[keyword]) {
    const auto merged = rest.empty() ? SchemaResult<Json>(alternative) : merge(rest, alternative, place.pointer);
    const auto values = merged ? finite_values(*merged, place) : tl::unexpected(merged.error());
    if (!values && values.error().allows_nothing) continue;
    if (!values || !*values) return values;
    all.insert(all.end(), (*values)->begin(), (*values)->end());
    if (all.size() > kMostListed) return std::nullopt;
  }
  return all;
}

Result<RuleSet> parse_json_schema(std::string_view json) {
  Result<Json> document = parse_schema_document(json);
  if (!document) return tl::unexpected(document.error());
  if (auto ok = begin_references_at_root(*document); !ok) return tl::unexpected(ok.error());
  return Translator(*document, lossy_numbers(json)).translate();
}

}  // namespace bonsai::grammar
