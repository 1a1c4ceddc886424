#include "core/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/json_text.h"
#include "core/grammar/schema_merge.h"
#include "core/grammar/schema_scalars.h"

namespace bonsai::grammar {
namespace {

constexpr uint32_t kUnbounded = Expression::kUnbounded;
// Subschemas looked at in all, as schemas that refer to each other could unfold without end.
constexpr size_t kMostSchemas = 20000;
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostPrefixItems = 64;

constexpr std::array<std::string_view, 3> kObjectKeywords = {"properties", "required", "additionalProperties"};
constexpr std::array<std::string_view, 4> kArrayKeywords = {"items", "prefixItems", "minItems", "maxItems"};
constexpr std::array<std::string_view, 4> kStringKeywords = {"minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 4> kNumberKeywords = {"minimum", "maximum", "exclusiveMinimum",
                                                             "exclusiveMaximum"};
constexpr std::array<std::string_view, 7> kOtherKeywords = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};

template <size_t n>
bool is_one_of(const std::array<std::string_view, n> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <size_t n>
bool has_any(const Json &schema, const std::array<std::string_view, n> &keywords) {
  return std::any_of(keywords.begin(), keywords.end(),
                     [&](auto keyword) { return schema.contains(std::string(keyword)); });
}

// A place in the document, as a JSON pointer (RFC 6901).
std::string below(const std::string &pointer, std::string_view name) {
  std::string made = pointer + "/";
  for (const char c : name) c == '~' ? made += "~0" : c == '/' ? made += "~1" : made += c;
  return made;
}

class Translator {
 public:
  explicit Translator(const Json &document) : document_(document) { set_.rules = json_rules(); }

  Result<RuleSet> translate() {
    const auto root = add_rule("root");
    if (!root) return tl::unexpected(root.error());
    set_.root = *root;
    referenced_[""] = *root;
    open_.push_back({&document_, "", *root});
    // Subschemas that are referred to are translated one after the other, however they refer to each other.
    while (!open_.empty()) {
      const Open next = open_.front();
      open_.pop_front();
      auto body = schema(*next.schema, next.pointer, 0);
      if (!body) return tl::unexpected(body.error());
      set_.rules[next.rule].body = *std::move(body);
    }
    return std::move(set_);
  }

 private:
  struct Open {
    const Json *schema;
    std::string pointer;
    uint32_t rule;
  };

  Result<uint32_t> add_rule(std::string name) {
    if (set_.rules.size() == kMostRules) return fail("JSON schema too large: it needs more than {} rules", kMostRules);
    set_.rules.push_back({std::move(name), {}, false});
    return static_cast<uint32_t>(set_.rules.size() - 1);
  }

  // An expression that is used several times.
  Result<Expression> as_rule(Expression body, const std::string &pointer) {
    const auto rule = add_rule("#" + pointer);
    if (!rule) return tl::unexpected(rule.error());
    set_.rules[*rule].body = std::move(body);
    return call(*rule);
  }

  Result<Expression> schema(const Json &json, const std::string &pointer, uint32_t depth) {
    if (++n_schemas_ > kMostSchemas || depth > kMostNesting)
      return fail_at(pointer, "too large, or without end: subschemas unfold to more than {}, or more than {} deep",
                     kMostSchemas, kMostNesting);
    if (json == true) return call(kValue);
    if (json == false) return fail_at(pointer, "false allows no value at all");
    if (!json.is_object()) return fail_at(pointer, "expected an object, true or false, found {}", json.type_name());
    for (const auto &[keyword, unused] : json.items()) {
      if (!is_annotation(keyword) && !is_known(keyword, json[keyword]))
        return fail_at(pointer, "keyword {} is not supported", bonsai::quoted(keyword));
    }
    const Json bare = without_annotations(json);
    if (bare.empty()) return call(kValue);
    if (bare.contains("$ref")) return reference(bare, pointer, depth);
    if (bare.contains("allOf")) return all_of(bare, pointer, depth);
    for (const char *keyword : {"anyOf", "oneOf"})
      if (bare.contains(keyword)) return any_of(bare, keyword, pointer, depth);
    if (bare.contains("enum") || bare.contains("const")) return values(bare, pointer);
    return by_type(bare, pointer, depth);
  }

  static bool is_known(std::string_view keyword, const Json &value) {
    if (keyword == "uniqueItems" && value == false) return true;  // the default
    return is_one_of(kObjectKeywords, keyword) || is_one_of(kArrayKeywords, keyword) ||
           is_one_of(kStringKeywords, keyword) || is_one_of(kNumberKeywords, keyword) ||
           is_one_of(kOtherKeywords, keyword);
  }

  // What a $ref names.
  Result<const Json *> resolve(const Json &reference, const std::string &pointer) const {
    if (!reference.is_string()) return fail_at(pointer, "'$ref': expected a text, found {}", reference.type_name());
    const auto &text = reference.get_ref<const std::string &>();
    if (text.empty() || text[0] != '#' || (text.size() > 1 && text[1] != '/'))
      return fail_at(pointer, "'$ref': expected '#' and a path within the document, found {}", bonsai::quoted(text));
    const Json *at = &document_;
    for (size_t begin = 1; begin < text.size();) {
      const size_t end = std::min(text.find('/', begin + 1), text.size());
      std::string name = text.substr(begin + 1, end - begin - 1);
      for (size_t i = 0; (i = name.find('~', i)) != name.npos; ++i)
        if (i + 1 < name.size()) name.replace(i, 2, name[i + 1] == '1' ? "/" : "~");
      begin = end;
      if (at->is_object() && at->contains(name)) {
        at = &at->at(name);
        continue;
      }
      const bool index =
          at->is_array() && !name.empty() && name.size() < 6 && name.find_first_not_of("0123456789") == name.npos;
      if (!index || std::stoul(name) >= at->size())
        return fail_at(pointer, "'$ref': there is nothing at {}", bonsai::quoted(text));
      at = &at->at(std::stoul(name));
    }
    return at;
  }

  Result<Expression> reference(const Json &bare, const std::string &pointer, uint32_t depth) {
    const auto target = resolve(bare["$ref"], pointer);
    if (!target) return tl::unexpected(target.error());
    if (bare.size() > 1) {
      Json rest = bare;
      rest.erase("$ref");
      return schema(Json{{"allOf", Json::array({**target, rest})}}, pointer, depth + 1);
    }
    const std::string name = bare["$ref"].get<std::string>().substr(1);
    if (const auto known = referenced_.find(name); known != referenced_.end()) return call(known->second);
    const auto rule = add_rule("#" + name);
    if (!rule) return tl::unexpected(rule.error());
    referenced_[name] = *rule;
    open_.push_back({*target, name, *rule});
    return call(*rule);
  }

  // The schema itself, or the one that it refers to and nothing else.
  Result<Json> without_reference(const Json &json, const std::string &pointer) const {
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

  Result<Json> merge(const Json &a, const Json &b, const std::string &pointer) const {
    for (const Json *one : {&a, &b}) {
      if (*one == true) return one == &a ? b : a;
      if (!one->is_object()) return fail_at(pointer, "expected schemas that allow a value, found {}", one->dump());
    }
    const auto left = without_reference(a, pointer), right = without_reference(b, pointer);
    for (const auto *one : {&left, &right})
      if (!*one) return *one;
    if (!left->is_object() || !right->is_object()) return merge(*left, *right, pointer);
    auto merged = merge_schemas(*left, *right);
    if (!merged) return fail_at(pointer, "{}", merged.error().message);
    return merged;
  }

  Result<Expression> all_of(const Json &bare, const std::string &pointer, uint32_t depth) {
    const Json &parts = bare["allOf"];
    if (!parts.is_array() || parts.empty()) return fail_at(pointer, "'allOf': expected a list of schemas");
    Json merged = bare;
    merged.erase("allOf");
    if (merged.empty() && parts.size() == 1) return schema(parts[0], below(pointer, "allOf") + "/0", depth + 1);
    for (const Json &part : parts) {
      auto next = merge(merged, part, pointer);
      if (!next) return tl::unexpected(next.error());
      merged = *std::move(next);
    }
    return schema(merged, pointer, depth + 1);
  }

  Result<Expression> any_of(const Json &bare, const std::string &keyword, const std::string &pointer, uint32_t depth) {
    const Json &alternatives = bare[keyword];
    if (!alternatives.is_array() || alternatives.empty())
      return fail_at(pointer, "{}: expected a list of schemas", bonsai::quoted(keyword));
    Json rest = bare;
    rest.erase(keyword);
    std::vector<Expression> ways;
    for (size_t i = 0; i < alternatives.size(); ++i) {
      const std::string place = below(pointer, keyword) + "/" + std::to_string(i);
      const auto merged = rest.empty() ? Result<Json>(alternatives[i]) : merge(rest, alternatives[i], place);
      if (!merged) return tl::unexpected(merged.error());
      auto way = schema(*merged, place, depth + 1);
      if (!way) return way;
      ways.push_back(*std::move(way));
    }
    return choice(std::move(ways));
  }

  static bool has_type(const Json &value, const std::string &type) {
    if (type == "integer")
      return value.is_number_integer() || (value.is_number_float() && value.dump().ends_with(".0"));
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  // enum and const. Other keywords beside them would have to be tested on each value.
  Result<Expression> values(const Json &bare, const std::string &pointer) {
    for (const auto &[keyword, unused] : bare.items())
      if (keyword != "enum" && keyword != "const" && keyword != "type")
        return fail_at(pointer, "keyword {} beside 'enum' or 'const' is not supported", bonsai::quoted(keyword));
    Json allowed = bare.contains("const") ? Json::array({bare["const"]}) : bare["enum"];
    if (!allowed.is_array() || allowed.empty()) return fail_at(pointer, "'enum': expected a list of values");
    const auto types = types_of(bare, pointer);
    if (!types) return tl::unexpected(types.error());
    std::vector<Expression> ways;
    for (const Json &value : allowed) {
      const bool in_enum = !bare.contains("enum") || !bare["enum"].is_array() ||
                           std::find(bare["enum"].begin(), bare["enum"].end(), value) != bare["enum"].end();
      const bool of_type = types->empty() || std::any_of(types->begin(), types->end(),
                                                         [&](const auto &type) { return has_type(value, type); });
      if (in_enum && of_type) ways.push_back(literal(value.dump()));
    }
    if (ways.empty()) return fail_at(pointer, "no value is of the type and in both 'enum' and 'const'");
    return choice(std::move(ways));
  }

  // "type", or what the keywords say; empty: any.
  Result<std::vector<std::string>> types_of(const Json &bare, const std::string &pointer) const {
    constexpr std::array<std::string_view, 7> kTypes = {"object",  "array",   "string", "number",
                                                        "integer", "boolean", "null"};
    std::vector<std::string> types;
    if (bare.contains("type")) {
      const Json &type = bare["type"];
      if (type.is_array() && type.empty()) return fail_at(pointer, "'type': no type is left that is allowed");
      for (const Json &name : type.is_array() ? type : Json::array({type})) {
        if (!name.is_string() || !is_one_of(kTypes, name.get_ref<const std::string &>()))
          return fail_at(pointer, "'type': expected object, array, string, number, integer, boolean or null, found {}",
                         bonsai::quoted(name.dump()));
        types.push_back(name);
      }
    } else if (has_any(bare, kObjectKeywords)) {
      types = {"object"};
    } else if (has_any(bare, kArrayKeywords)) {
      types = {"array"};
    } else if (has_any(bare, kStringKeywords)) {
      types = {"string"};
    } else if (has_any(bare, kNumberKeywords)) {
      types = {"number"};
    }
    return types;
  }

  Result<Expression> by_type(const Json &bare, const std::string &pointer, uint32_t depth) {
    const auto types = types_of(bare, pointer);
    if (!types) return tl::unexpected(types.error());
    if (types->empty()) return call(kValue);
    std::vector<Expression> ways;
    for (const std::string &type : *types) {
      auto way = of_type(type, bare, pointer, depth);
      if (!way) return way;
      ways.push_back(*std::move(way));
    }
    return choice(std::move(ways));
  }

  Result<Expression> of_type(const std::string &type, const Json &bare, const std::string &pointer, uint32_t depth) {
    if (type == "object") return object(bare, pointer, depth);
    if (type == "array") return array(bare, pointer, depth);
    if (type == "string") return string_schema(bare, pointer);
    if (type == "number" || type == "integer") return number_schema(bare, type == "integer", pointer);
    if (type == "boolean") return choice({literal("true"), literal("false")});
    return literal("null");
  }

  Result<Expression> array(const Json &bare, const std::string &pointer, uint32_t depth) {
    const auto range = read_counts(bare, "minItems", "maxItems", pointer);
    if (!range) return tl::unexpected(range.error());
    const auto [least, most] = *range;
    std::vector<Expression> items;
    if (bare.contains("prefixItems")) {
      const Json &prefix = bare["prefixItems"];
      if (!prefix.is_array() || prefix.size() > kMostPrefixItems)
        return fail_at(pointer, "'prefixItems': expected a list of at most {} schemas", kMostPrefixItems);
      for (size_t i = 0; i < prefix.size() && i < most; ++i) {
        auto item = schema(prefix[i], below(pointer, "prefixItems") + "/" + std::to_string(i), depth + 1);
        if (!item) return item;
        items.push_back(*std::move(item));
      }
    }
    std::optional<Expression> further;
    const bool closed =
        bare.contains("items") ? bare["items"] == false : bare.contains("prefixItems") && least <= items.size();
    if (!closed && items.size() < most) {
      auto item = bare.contains("items") ? schema(bare["items"], below(pointer, "items"), depth + 1) : call(kValue);
      if (!item) return item;
      auto rule = as_rule(*std::move(item), pointer + "/items");
      if (!rule) return rule;
      further = *std::move(rule);
    }
    if (!further && least > items.size()) return fail_at(pointer, "'minItems' asks for more items than there may be");
    return enclosed('[', item_list(items, further, least, most), ']', least == 0);
  }

  // At least one item: the first ones, those from `least` on only if another follows or they are the last, and then any
  // number of further ones.
  static Expression item_list(const std::vector<Expression> &first, const std::optional<Expression> &further,
                              uint32_t least, uint32_t most) {
    Expression tail;  // an empty sequence
    const auto n_first = static_cast<uint32_t>(first.size());
    if (further) {
      const uint32_t more = most == kUnbounded ? kUnbounded : most - n_first;
      const uint32_t needed = least > n_first ? least - n_first : 0;
      const bool begins = n_first == 0;
      Expression next = repeat(sequence({comma(), *further}), needed - (begins && needed > 0),
                               more == kUnbounded ? more : more - begins);
      tail = begins ? sequence({*further, std::move(next)}) : std::move(next);
    }
    for (uint32_t i = n_first; i > 0; --i) {
      Expression item = i == 1 ? first[0] : sequence({comma(), first[i - 1]});
      tail = sequence({std::move(item), std::move(tail)});
      if (i > std::max(least, 1u)) tail = optional(std::move(tail));
    }
    return tail;
  }

  Result<Expression> object(const Json &bare, const std::string &pointer, uint32_t depth) {
    const Json properties = bare.contains("properties") ? bare["properties"] : Json::object();
    const Json required = bare.contains("required") ? bare["required"] : Json::array();
    const bool any = !bare.contains("properties") && !bare.contains("additionalProperties");
    const Json additional = bare.contains("additionalProperties") ? bare["additionalProperties"] : Json(any);
    if (!properties.is_object()) return fail_at(pointer, "'properties': expected an object of schemas");
    if (!required.is_array()) return fail_at(pointer, "'required': expected a list of names");
    if (any && required.empty()) return call(kObject);
    std::vector<Expression> members = {comma()};
    std::vector<std::string> names;
    for (const auto &[name, property] : properties.items()) {
      const bool needed = std::find(required.begin(), required.end(), Json(name)) != required.end();
      if (auto ok = add_member(name, property, needed, below(below(pointer, "properties"), name), depth, members); !ok)
        return tl::unexpected(ok.error());
      names.push_back(name);
    }
    for (const Json &name : required) {
      if (!name.is_string()) return fail_at(pointer, "'required': expected a list of names");
      if (std::find(names.begin(), names.end(), name.get_ref<const std::string &>()) != names.end()) continue;
      if (additional == false)
        return fail_at(pointer, "'required': there is no property {}", bonsai::quoted(name.get<std::string>()));
      if (auto ok = add_member(name, additional, true, below(pointer, "additionalProperties"), depth, members); !ok)
        return tl::unexpected(ok.error());
      names.push_back(name);
    }
    if (additional != false) {
      auto others = other_members(additional, names, pointer, depth);
      if (!others) return others;
      members.push_back(optional(*std::move(others)));
    }
    if (members.size() == 1) return literal("{}");
    Expression list;
    list.kind = Expression::Kind::kMembers;
    list.parts = std::move(members);
    return enclosed('{', std::move(list), '}', required.empty());
  }

  Result<void> add_member(const std::string &name, const Json &property, bool needed, const std::string &pointer,
                          uint32_t depth, std::vector<Expression> &members) {
    if (name.size() > kMostNameBytes)
      return fail_at(pointer, "a property's name is longer than {} bytes", kMostNameBytes);
    if (property == false && !needed) return {};
    auto value = schema(property, pointer, depth + 1);
    if (!value) return tl::unexpected(value.error());
    Expression member = sequence({literal(Json(name).dump()), colon(), *std::move(value)});
    members.push_back(needed ? std::move(member) : optional(std::move(member)));
    return {};
  }

  // Properties of other names than the listed ones, at least one.
  Result<Expression> other_members(const Json &additional, std::vector<std::string> names, const std::string &pointer,
                                   uint32_t depth) {
    auto value = schema(additional, below(pointer, "additionalProperties"), depth + 1);
    if (!value) return value;
    auto member = as_rule(sequence({string_except(std::move(names)), colon(), *std::move(value)}),
                          pointer + "/additionalProperties");
    if (!member) return member;
    Expression more = repeat(sequence({comma(), *member}), 0, kUnbounded);
    return sequence({*std::move(member), std::move(more)});
  }

  const Json &document_;
  RuleSet set_;
  std::map<std::string, uint32_t> referenced_;  // rules by pointer
  std::deque<Open> open_;
  size_t n_schemas_ = 0;
};

}  // namespace

Result<RuleSet> parse_json_schema(std::string_view json) {
  if (json.size() > kMostGrammarBytes)
    return fail("JSON schema of {} bytes is too long; expected at most {}", json.size(), kMostGrammarBytes);
  if (const size_t offset = find_invalid_utf8(json); offset != std::string_view::npos)
    return fail("JSON schema: invalid UTF-8 at byte offset {}", offset);
  const auto nested_too_deep = fail("JSON schema: nested more than {} deep", 2 * kMostNesting);
  bool too_deep = false;
  const auto limit_depth = [&](int depth, Json::parse_event_t, Json &) {
    too_deep |= depth > static_cast<int>(2 * kMostNesting);
    return !too_deep;
  };
  try {
    const Json document = Json::parse(json, limit_depth);
    if (too_deep) return nested_too_deep;
    return Translator(document).translate();
  } catch (const Json::parse_error &error) {
    if (too_deep) return nested_too_deep;
    const std::string message = error.what();
    const size_t begin = message.find("] ");
    return fail("JSON schema is not JSON: {}", begin == message.npos ? message : message.substr(begin + 2));
  }
}

}  // namespace bonsai::grammar
