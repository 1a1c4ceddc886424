#include "core/grammar/schema_document.h"

#include "core/base/json_nesting.h"
#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"

namespace bonsai::grammar {
namespace {

// The JSON library looks a member up by going through all of them: of a longer text's, for seconds.
constexpr size_t kMostSchemaBytes = size_t{1} << 18;

}  // namespace

Result<Json> parse_schema_document(std::string_view json) {
  if (json.size() > kMostSchemaBytes)
    return fail("JSON schema of {} bytes is too long; expected at most {}", json.size(), kMostSchemaBytes);
  if (const size_t offset = find_invalid_utf8(json); offset != std::string_view::npos)
    return fail("JSON schema: invalid UTF-8 at byte offset {}", offset);
  if (is_nested_deeper(json, 2 * kMostNesting)) return fail("JSON schema: nested more than {} deep", 2 * kMostNesting);
  try {
    return Json::parse(json);
  } catch (const Json::parse_error &error) {
    const std::string message = error.what();
    const size_t begin = message.find("] ");
    return fail("JSON schema is not JSON: {}", begin == message.npos ? message : message.substr(begin + 2));
  } catch (const Json::out_of_range &) {
    return fail("JSON schema: holds a number that no double can hold");
  }
}

std::string text_of(const Json &value) { return value.dump(); }

nlohmann::json without_order(const Json &value) { return nlohmann::json::parse(value.dump()); }

}  // namespace bonsai::grammar
