// Reading members of JSON objects with errors that name them. Used for config.json, the shard index, safetensors
// headers and what an embedding model's files say of pooling.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace bonsai::convert {

using Json = nlohmann::json;

// An object from its text; refuses anything else, and a key that occurs twice. `where` begins the messages.
Result<Json> parse_object(const std::string &where, std::string_view text);

// The same from a file.
Result<Json> read_object(const std::string &path);

// An array from a file; refuses anything else.
Result<Json> read_array(const std::string &path);

// A whole file as a string.
Result<std::string> read_text(const std::string &path);

// The member, or nullptr. null counts as absent: that is how these files say "none".
const Json *member(const Json &object, std::string_view key);

// A value as a message shows it, shortened.
std::string describe(const Json &value);

}  // namespace bonsai::convert
