#include "host/server/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/json_nesting.h"
#include "core/base/parse_json.h"

namespace bonsai::server {
namespace {

constexpr size_t kMostNesting = 100;

}  // namespace

std::string shown(const Json &value) {
  constexpr size_t kMost = 40;
  if (value.is_structured()) return value.type_name();
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kMost ? text : value.type_name();
}

Json parse_body(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == body.npos) throw ApiError("empty body: expected a JSON object");
  if (is_nested_deeper(body, kMostNesting))
    throw ApiError(fmt::format("the body is nested more than {} deep", kMostNesting));
  if (has_more_names(body, kMostNames))
    throw ApiError(fmt::format("an object in the body has more than {} names", kMostNames));
  if (has_more_parts(body, kMostParts))
    throw ApiError(fmt::format("the body has more than {} objects, arrays and texts", kMostParts));
  Json json;
  try {
    json = parse_json<Json>(body);
  } catch (const Json::parse_error &error) {
    throw ApiError(fmt::format("the body is not JSON: wrong at byte {}", error.byte));
  } catch (const Json::exception &error) {  // a number beyond all numbers
    throw ApiError("the body is not JSON: a number is out of range");
  }
  if (!json.is_object()) throw ApiError(fmt::format("the body is {}, expected a JSON object", json.type_name()));
  return json;
}

JsonFields object_at(const Json &json, const std::string &where) {
  if (!json.is_object())
    throw ApiError::of_field(where, fmt::format("{}: expected an object, found {}", where, shown(json)));
  return {json, where + "."};
}

const Json *JsonFields::find(const char *name) const {
  const auto field = object_.find(name);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

void JsonFields::fail(std::string_view name, std::string_view expected, const Json &found) const {
  const std::string field = path(name);
  throw ApiError::of_field(field, fmt::format("{}: expected {}, found {}", field, expected, shown(found)));
}

std::optional<std::string> JsonFields::text(const char *name) const {
  const Json *field = find(name);
  if (field == nullptr) return std::nullopt;
  if (!field->is_string()) fail(name, "a string", *field);
  return field->get<std::string>();
}

const Json &JsonFields::required(const char *name) const {
  const Json *field = find(name);
  if (field == nullptr) throw ApiError::of_field(path(name), path(name) + " is missing");
  return *field;
}

std::string JsonFields::required_text(const char *name) const {
  required(name);
  return *text(name);
}

std::optional<bool> JsonFields::flag(const char *name) const {
  const Json *field = find(name);
  if (field == nullptr) return std::nullopt;
  if (!field->is_boolean()) fail(name, "true or false", *field);
  return field->get<bool>();
}

std::optional<float> JsonFields::number(const char *name, float least, float most, std::string_view expected) const {
  const Json *field = find(name);
  if (field == nullptr) return std::nullopt;
  const double value = field->is_number() ? field->get<double>() : std::nan("");
  if (std::abs(value) > std::numeric_limits<float>::max())
    fail(name, fmt::format("{} in the range of 32-bit numbers", expected), *field);
  if (!(value >= least && value <= most)) fail(name, expected, *field);
  return static_cast<float>(value);
}

std::optional<uint32_t> JsonFields::count(const char *name, uint32_t least, uint32_t most) const {
  const Json *field = find(name);
  if (field == nullptr) return std::nullopt;
  const auto value = whole_number(*field);
  const bool has_end = most < std::numeric_limits<uint32_t>::max();
  if (value && *value > most && !has_end) return most;  // as good as any that is larger
  if (!value || *value < least || *value > most) {
    fail(
        name,
        has_end ? fmt::format("a whole number from {} to {}", least, most) : fmt::format("a whole number >= {}", least),
        *field);
  }
  return static_cast<uint32_t>(*value);
}

std::optional<int64_t> JsonFields::integer(const char *name) const {
  const Json *field = find(name);
  if (field == nullptr) return std::nullopt;
  const auto value = whole_number(*field);
  if (!value) fail(name, "a whole number", *field);
  return value;
}

void JsonFields::refuse(const char *name, const Json &neutral) const {
  const Json *field = find(name);
  if (field == nullptr || *field == neutral) return;
  const bool is_nothing = *field == Json(false) || *field == Json(0) || *field == Json("");
  if ((neutral.is_null() && is_nothing) || (field->is_structured() && field->empty())) return;
  throw ApiError::of_field(path(name), path(name) + ": not supported");
}

std::optional<int64_t> whole_number(const Json &value) {
  constexpr double kMost = 9007199254740992.0;  // 2^53: beyond it not every whole number can be told
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(std::abs(number) <= kMost) || number != std::trunc(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace bonsai::server
