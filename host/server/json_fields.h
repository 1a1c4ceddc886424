// The fields of a JSON object that a client sent, each read with a check. Errors are ApiErrors that name the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "host/server/api_error.h"

namespace bonsai::server {

using Json = nlohmann::ordered_json;

// Most names in one object. It keeps their order and looks at all of them for each: many would take many times as long.
inline constexpr size_t kMostNames = 512;

// Most objects, arrays and texts in a body, names among these: 12 to 16 MiB. That is more than the messages of the
// longest conversation have, or the texts of any other field; of token ids there may be as many as there is room for.
inline constexpr size_t kMostParts = 250'000;

// A request's body, which has to be an object, not nested too deep, without more names in one object than can be read
// in little time, and without more parts than there is memory for.
Json parse_body(std::string_view body);

// A field that is null counts as missing, as it does in OpenAI's API.
class JsonFields {
 public:
  // `where` is what the fields' names are put behind: "messages[2].". The object outlives it.
  JsonFields(const Json &object, std::string where) : object_(object), where_(std::move(where)) {}

  const Json *find(const char *name) const;
  const Json &required(const char *name) const;
  std::optional<std::string> text(const char *name) const;
  std::string required_text(const char *name) const;
  std::optional<bool> flag(const char *name) const;
  // `expected` describes the range: "a number >= 0".
  std::optional<float> number(const char *name, float least, float most, std::string_view expected) const;
  std::optional<uint32_t> count(const char *name, uint32_t least, uint32_t most) const;
  std::optional<int64_t> integer(const char *name) const;
  // What the field would change is not known here: it has to say nothing: empty, `neutral`, or false or 0 where that
  // is not given.
  void refuse(const char *name, const Json &neutral = nullptr) const;

  std::string path(std::string_view name) const { return where_ + std::string(name); }
  // "temperature: expected a number, found string".
  [[noreturn]] void fail(std::string_view name, std::string_view expected, const Json &found) const;

 private:
  const Json &object_;
  const std::string where_;
};

// Those of an object, which has its place within the request: "messages[2]", behind which their names are put.
JsonFields object_at(const Json &json, const std::string &where);

// Reads what goes by one of these names, in which servers before this one differ: the first that is there counts.
template <class Read>
auto first_of(std::initializer_list<const char *> names, Read read) {
  decltype(read(*names.begin())) value;
  for (const char *name : names) {
    if (!value) value = read(name);
  }
  return value;
}

// A number without a fraction, whether or not it is written with one (1.0); nullopt: something else.
std::optional<int64_t> whole_number(const Json &value);

// What an error shows of a value: numbers, short texts and such as they are, and of others the type.
std::string shown(const Json &value);

// Each element of an array, with its own place for errors: "messages[2]".
template <class Function>
void for_each(const Json &array, const std::string &where, Function function) {
  for (size_t i = 0; i < array.size(); ++i) function(array[i], where + "[" + std::to_string(i) + "]");
}

}  // namespace bonsai::server
