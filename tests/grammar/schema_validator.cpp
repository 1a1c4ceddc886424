#include "tests/grammar/schema_validator.h"

#include <algorithm>

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

bool object_satisfies(const json &value, const json &schema, const json &document) {
  const json none = json::object();
  const json &properties = schema.contains("properties") ? schema["properties"] : none;
  for (const auto &[name, member] : value.items()) {
    if (properties.contains(name)) {
      if (!satisfies(member, properties[name], document)) return false;
    } else if (schema.contains("additionalProperties") &&
               !satisfies(member, schema["additionalProperties"], document)) {
      return false;
    }
  }
  if (!schema.contains("required")) return true;
  return std::all_of(schema["required"].begin(), schema["required"].end(),
                     [&](const json &name) { return value.contains(name.get<std::string>()); });
}

bool array_satisfies(const json &value, const json &schema, const json &document) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
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

bool scalar_satisfies(const json &value, const json &schema) {
  if (value.is_string()) {
    const size_t length = length_of(value.get<std::string>());
    if (schema.contains("minLength") && length < schema["minLength"]) return false;
    if (schema.contains("maxLength") && length > schema["maxLength"]) return false;
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return false;
    if (schema.contains("maximum") && number > schema["maximum"].get<double>()) return false;
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) return false;
    if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>()) return false;
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

}  // namespace bonsai::grammar
