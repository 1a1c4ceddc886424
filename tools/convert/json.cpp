#include "tools/convert/json.h"

#include <set>

#include "core/base/json_nesting.h"
#include "core/base/mapped_file.h"

namespace bonsai::convert {
namespace {

constexpr size_t kMostNesting = 100;  // ten times what checkpoints need

}  // namespace

Result<Json> parse_object(const std::string &where, std::string_view text) {
  if (is_nested_deeper(text, kMostNesting)) return fail("{}: nested more than {} deep", where, kMostNesting);
  std::set<std::string> keys;
  std::string duplicate;
  auto watch_keys = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  try {
    Json document = Json::parse(text, watch_keys);
    if (!document.is_object()) return fail("{}: expected a JSON object, found {}", where, document.type_name());
    if (!duplicate.empty()) return fail("{}: {}: the key occurs twice", where, duplicate);
    return document;
  } catch (const Json::parse_error &error) {
    return fail("{}: malformed JSON at byte {}", where, error.byte);
  } catch (const Json::out_of_range &) {
    return fail("{}: holds a number that no double can hold", where);
  }
}

Result<std::string> read_text(const std::string &path) {
  auto file = MappedFile::open(path);
  if (!file) return tl::unexpected(file.error());
  return std::string(reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size());
}

Result<Json> read_object(const std::string &path) {
  auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  return parse_object(path, *text);
}

const Json *member(const Json &object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string describe(const Json &value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

}  // namespace bonsai::convert
