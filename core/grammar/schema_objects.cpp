// Schemas of objects.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/grammar/gbnf.h"
#include "core/grammar/json_text.h"
#include "core/grammar/language.h"
#include "core/grammar/ordered_list.h"
#include "core/grammar/regex.h"
#include "core/grammar/schema_scalars.h"
#include "core/grammar/schema_translator.h"

namespace bonsai::grammar {
namespace {

constexpr size_t kMostNameBytes = 256;
// Sets of names that patterns tell apart.
constexpr size_t kMostNameSets = 64;

// A property's name as it stands between its quotation marks. nullopt: plain_char() spells it in no way.
std::optional<std::string> plain_spelling(const std::string &name) {
  std::string text = text_of(name);
  if (text.find("\\u") != text.npos) return std::nullopt;
  return text.substr(1, text.size() - 2);
}

// Which names there may be, and which schemas hold for the values of each: those of "patternProperties" whose patterns
// match, whatever else is said of the name, and "additionalProperties" where nothing else does.
class NameRules {
 public:
  struct Pattern {
    std::string text;
    Language names;
    const Json *schema;
  };
  // Names and the patterns that match all of them.
  struct NameSet {
    Language names;
    std::vector<const Pattern *> patterns;
  };

  static SchemaResult<NameRules> read(const Json &bare, const Place &place, Effort &effort) {
    NameRules rules;
    if (bare.contains("propertyNames")) {
      auto allowed = allowed_names(bare["propertyNames"], place.below("propertyNames"), effort);
      if (!allowed) return tl::unexpected(allowed.error());
      rules.allowed_ = *std::move(allowed);
    }
    if (!bare.contains("patternProperties")) return rules;
    if (!bare["patternProperties"].is_object())
      return fail_at(place.pointer, "'patternProperties': expected an object of schemas");
    for (const auto &[pattern, schema] : bare["patternProperties"].items()) {
      const std::string pointer = place.below("patternProperties").below(pattern).pointer;
      auto names = string_language(Json{{"pattern", pattern}}, pointer, effort);
      if (!names) return tl::unexpected(names.error());
      rules.patterns_.push_back({pattern, *std::move(names), &schema});
    }
    return rules;
  }

  // Whether nothing is said of names but which are listed.
  bool are_trivial() const { return !allowed_ && patterns_.empty(); }

  SchemaResult<bool> allow(const std::string &name, const std::string &pointer) const {
    const auto text = spelling(name, pointer);
    if (!text) return tl::unexpected(text.error());
    return !allowed_ || allowed_->contains(*text);
  }

  SchemaResult<std::vector<const Json *>> schemas_of(const std::string &name, const std::string &pointer,
                                                     Effort &effort) const {
    const auto text = spelling(name, pointer);
    if (!text) return tl::unexpected(text.error());
    if (!effort.spend(patterns_.size() * text->size()))
      return fail_at(pointer, "'patternProperties': too large: to try the names takes more than {} steps",
                     effort.most());
    std::vector<const Json *> schemas;
    for (const Pattern &pattern : patterns_)
      if (pattern.names.contains(*text)) schemas.push_back(pattern.schema);
    return schemas;
  }

  // The other names than those that are listed, by what holds for them; nothing holds for those that no pattern
  // matches.
  SchemaResult<std::vector<NameSet>> others_than(const std::vector<std::string> &listed, const std::string &pointer,
                                                 Effort &effort) const {
    auto names = unlisted(listed, pointer, effort);
    if (!names) return tl::unexpected(names.error());
    std::vector<NameSet> sets;
    sets.push_back({*std::move(names), {}});
    for (const Pattern &pattern : patterns_) {
      std::vector<NameSet> finer;
      for (NameSet &set : sets) {
        auto in = Language::both(set.names, pattern.names, effort);
        auto out = Language::difference(set.names, pattern.names, effort);
        if (!in || !out) return fail_at(pointer, "'patternProperties': too large: {}", (in ? out : in).error().message);
        std::vector<const Pattern *> patterns = set.patterns;
        patterns.push_back(&pattern);
        if (!out->is_empty()) finer.push_back({*std::move(out), std::move(set.patterns)});
        if (!in->is_empty()) finer.push_back({*std::move(in), std::move(patterns)});
      }
      sets = std::move(finer);
      if (sets.size() > kMostNameSets)
        return fail_at(pointer, "'patternProperties': the patterns overlap in more than {} ways", kMostNameSets);
    }
    return sets;
  }

 private:
  static bool takes_strings(const Json &type) {
    return type == "string" || (type.is_array() && std::ranges::find(type, Json("string")) != type.end());
  }

  // What "propertyNames" asks for.
  static Result<Language> allowed_names(const Json &schema, const Place &place, Effort &effort) {
    if (schema == true) return string_language(Json::object(), place.pointer, effort);
    if (!schema.is_object()) return fail_at(place.pointer, "expected an object or true, found {}", text_of(schema));
    Json bare = without_annotations(schema);
    const char *const listing = bare.contains("enum") ? "enum" : "const";
    const bool is_listed = bare.contains(listing);
    const Json list = !is_listed ? Json() : bare.contains("enum") ? bare["enum"] : Json::array({bare["const"]});
    bare.erase(listing);
    bare.erase("type");
    if (schema.contains("type") && !takes_strings(schema["type"]))
      return fail_at(place.pointer, "'type': expected string for names, found {}", text_of(schema["type"]));
    for (const auto &[keyword, unused] : bare.items())
      if (keyword != "pattern" && keyword != "format" && keyword != "minLength" && keyword != "maxLength")
        return fail_at(place.pointer, "keyword {} is not supported for names", bonsai::quoted(keyword));
    auto names = string_language(bare, place.pointer, effort);
    if (!names || !is_listed) return names;
    return names_of_list(listing, list, *names, place, effort);
  }

  // Of a list, the names that also satisfy what stands beside it.
  static Result<Language> names_of_list(const char *keyword, const Json &list, const Language &allowed,
                                        const Place &place, Effort &effort) {
    if (!list.is_array()) return fail_at(place.pointer, "'{}': expected a list of names", keyword);
    std::vector<Expression> names;
    for (const Json &name : list) {
      const auto text = name.is_string() ? plain_spelling(name) : std::nullopt;
      if (text && allowed.contains(*text)) names.push_back(literal(*text));
    }
    if (names.empty()) return fail_at(place.pointer, "'{}': no name is left that is allowed", keyword);
    auto language = Language::of(choice(std::move(names)), effort);
    if (!language) return fail_at(place.pointer, "'{}': too large: {}", keyword, language.error().message);
    return language;
  }

  SchemaResult<std::string> spelling(const std::string &name, const std::string &pointer) const {
    const auto text = plain_spelling(name);
    if (!text && !are_trivial())
      return fail_at(pointer, "property {}: control characters in names are not supported beside patterns of names",
                     bonsai::quoted(name));
    return text.value_or("");
  }

  Result<Language> unlisted(const std::vector<std::string> &listed, const std::string &pointer, Effort &effort) const {
    auto all = allowed_ ? Result<Language>(*allowed_) : Language::of(repeat(plain_char(), 0, kUnbounded), effort);
    std::vector<Expression> texts;
    for (const std::string &name : listed) texts.push_back(literal(*plain_spelling(name)));
    if (!all || texts.empty()) return all;
    const auto these = Language::of(choice(std::move(texts)), effort);
    auto rest = these ? Language::difference(*all, *these, effort) : these;
    if (!rest) return fail_at(pointer, "too many properties: {}", rest.error().message);
    return rest;
  }

  std::optional<Language> allowed_;
  std::vector<Pattern> patterns_;
};

class ObjectSchema {
 public:
  ObjectSchema(Translator &translator, const Json &bare, const Place &place)
      : translator_(translator), bare_(bare), place_(place) {}

  SchemaResult<Expression> translate() {
    if (auto ok = read(); !ok) return tl::unexpected(ok.error());
    if (is_any_) return call(kObject);
    if (auto ok = add_listed(); !ok) return tl::unexpected(ok.error());
    if (auto ok = add_required(); !ok) return tl::unexpected(ok.error());
    if (auto ok = add_others(); !ok) return tl::unexpected(ok.error());
    if (auto ok = check_counts(); !ok) return tl::unexpected(ok.error());
    if (list_.most == 0 || (list_.members.empty() && !list_.others)) return literal("{}");
    return enclosed('{', list_.expression(), '}', list_.may_be_empty());
  }

 private:
  SchemaResult<void> read() {
    const auto range = read_counts(bare_, "minProperties", "maxProperties", place_.pointer);
    if (!range) return tl::unexpected(range.error());
    std::tie(list_.least, list_.most) = *range;
    auto names = NameRules::read(bare_, place_, translator_.effort());
    if (!names) return tl::unexpected(names.error());
    names_ = *std::move(names);
    if (bare_.contains("properties")) properties_ = bare_["properties"];
    if (bare_.contains("required")) required_ = bare_["required"];
    if (!properties_.is_object()) return fail_at(place_.pointer, "'properties': expected an object of schemas");
    const bool is_list = required_.is_array() && std::all_of(required_.begin(), required_.end(),
                                                             [](const Json &name) { return name.is_string(); });
    if (!is_list) return fail_at(place_.pointer, "'required': expected a list of names");
    for (const Json &name : required_) required_names_.insert(name.get_ref<const std::string &>());
    const bool open = !bare_.contains("properties") && !bare_.contains("patternProperties");
    additional_ = bare_.contains("additionalProperties") ? bare_["additionalProperties"] : Json(open);
    is_any_ = open && !bare_.contains("additionalProperties") && required_.empty() && names_.are_trivial() && !counts();
    return {};
  }

  bool counts() const { return list_.least > 0 || list_.most != kUnbounded; }

  bool is_required(const std::string &name) const { return required_names_.contains(name); }

  SchemaResult<void> add_listed() {
    for (const auto &[name, property] : properties_.items()) {
      if (auto ok = add_member(name, {&property}, place_.below("properties").below(name)); !ok) return ok;
    }
    return {};
  }

  // Those that are required, but not listed. Where nothing is said of other properties they may be anything, though
  // none are written that are not asked for.
  SchemaResult<void> add_required() {
    static const Json kAnything = true;
    const Json &additional_schema = bare_.contains("additionalProperties") ? additional_ : kAnything;
    for (const Json &name : required_) {
      const auto &text = name.get_ref<const std::string &>();
      if (listed_names_.contains(text)) continue;
      const auto schemas = names_.schemas_of(text, place_.pointer, translator_.effort());
      if (!schemas) return tl::unexpected(schemas.error());
      if (schemas->empty() && additional_schema == false)
        return nothing_at(place_.pointer, "'required': there is no property {}", bonsai::quoted(text));
      const Place at = place_.below(schemas->empty() ? "additionalProperties" : "patternProperties");
      std::vector<const Json *> additional;
      if (schemas->empty()) additional.push_back(&additional_schema);
      if (auto ok = add_member(text, std::move(additional), at); !ok) return ok;
    }
    return {};
  }

  static bool is_excluded(const std::vector<const Json *> &schemas) {
    return std::any_of(schemas.begin(), schemas.end(), [](const Json *schema) { return *schema == false; });
  }

  // A property of which `schemas` are said, and those that its name brings.
  SchemaResult<void> add_member(const std::string &name, std::vector<const Json *> schemas, const Place &at) {
    if (name.size() > kMostNameBytes)
      return fail_at(at.pointer, "a property's name is longer than {} bytes", kMostNameBytes);
    const bool needed = is_required(name);
    const auto allowed = names_.allow(name, at.pointer);
    const auto by_name = names_.schemas_of(name, at.pointer, translator_.effort());
    if (!allowed || !by_name) return tl::unexpected(allowed ? by_name.error() : allowed.error());
    schemas.insert(schemas.end(), by_name->begin(), by_name->end());
    listed_.push_back(name);
    listed_names_.insert(name);
    if (!needed && (!*allowed || is_excluded(schemas))) return {};
    if (!*allowed)
      return nothing_at(place_.pointer, "'propertyNames' excludes property {}, which is required",
                        bonsai::quoted(name));
    auto value = value_of(schemas, at);
    if (!value) return needed ? tl::unexpected(value.error()) : of_optional_part(value.error());
    list_.members.push_back({sequence({literal(text_of(name)), colon(), *std::move(value)}), needed});
    return {};
  }

  // A value for which all of the schemas hold.
  SchemaResult<Expression> value_of(const std::vector<const Json *> &schemas, const Place &at) {
    Json all = Json::array();
    for (const Json *schema : schemas) all.push_back(*schema);
    auto value = translator_.schema(all.size() == 1 ? all[0] : Json{{"allOf", all}}, at);
    // With counts, every count has the member once more.
    return value && counts() ? translator_.as_rule(*std::move(value), at.pointer) : value;
  }

  // Properties of other names than the listed ones.
  SchemaResult<void> add_others() {
    std::vector<Expression> ways;
    if (names_.are_trivial()) {
      if (additional_ == false) return {};
      auto value = value_of({&additional_}, place_.below("additionalProperties"));
      if (!value) return of_optional_part(value.error());
      ways.push_back(sequence({string_except(listed_), colon(), *std::move(value)}));
    } else {
      const auto sets = names_.others_than(listed_, place_.pointer, translator_.effort());
      if (!sets) return tl::unexpected(sets.error());
      for (const NameRules::NameSet &set : *sets) {
        auto way = others_of(set);
        if (!way) return tl::unexpected(way.error());
        if (*way) ways.push_back(**std::move(way));
      }
    }
    if (ways.empty()) return {};
    auto others = translator_.as_rule(choice(std::move(ways)), place_.below("additionalProperties").pointer);
    if (!others) return tl::unexpected(others.error());
    list_.others = *std::move(others);
    return {};
  }

  // A member with one of the names; nullopt: there may be none.
  SchemaResult<std::optional<Expression>> others_of(const NameRules::NameSet &set) {
    std::vector<const Json *> schemas;
    for (const NameRules::Pattern *pattern : set.patterns) schemas.push_back(pattern->schema);
    if (schemas.empty()) schemas.push_back(&additional_);
    if (set.names.is_empty() || is_excluded(schemas)) return std::nullopt;
    Place at = place_.below(set.patterns.empty() ? "additionalProperties" : "patternProperties");
    if (set.patterns.size() == 1) at = at.below(set.patterns.front()->text);
    auto value = value_of(schemas, at);
    if (!value) return of_optional_part(value.error());
    auto names = set.names.expression(translator_.effort());
    if (!names) return fail_at(place_.pointer, "names too large: {}", names.error().message);
    return sequence({quoted_text(*std::move(names)), colon(), *std::move(value)});
  }

  SchemaResult<void> check_counts() const {
    const auto n_needed =
        std::count_if(list_.members.begin(), list_.members.end(), [](auto &one) { return one.needed; });
    if (static_cast<size_t>(n_needed) > list_.most)
      return nothing_at(place_.pointer, "'required' asks for more properties than 'maxProperties' allows");
    const size_t n_different = list_.members.size() + list_.others.has_value();
    if (list_.least > n_different && !list_.others)
      return nothing_at(place_.pointer, "'minProperties': expected at most {}, all that there may be; found {}",
                        n_different, list_.least);
    if (list_.least > n_different)
      return fail_at(place_.pointer,
                     "'minProperties': expected at most {}, as names that are not listed might be the same one; "
                     "found {}",
                     n_different, list_.least);
    if (list_.is_too_long())
      return fail_at(place_.pointer, "too many properties for 'minProperties' or 'maxProperties'");
    return {};
  }

  Translator &translator_;
  const Json &bare_;
  const Place &place_;
  Json properties_ = Json::object(), required_ = Json::array(), additional_;
  NameRules names_;
  bool is_any_ = false;
  std::vector<std::string> listed_;
  std::unordered_set<std::string> required_names_, listed_names_;
  OrderedList list_;
};

}  // namespace

SchemaResult<Expression> object_schema(Translator &translator, const Json &bare, const Place &place) {
  return ObjectSchema(translator, bare, place).translate();
}

}  // namespace bonsai::grammar
