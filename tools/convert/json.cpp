#include "tools/convert/json.h"

#include <set>

#include "core/base/json_nesting.h"
#include "core/base/mapped_file.h"
#include "core/base/parse_json.h"

namespace bonsai::convert {
namespace {

constexpr size_t kMostNesting = 100;  // ten times what checkpoints need

// Stops at a key of the outermost object that was there before. A pass of its own: the library's parser with a callback
// takes time that is quadratic in the objects within an object, and a checkpoint's header has one for each tensor.
class KeyWatch : public nlohmann::json_sax<Json> {
 public:
  const std::string &duplicate() const { return duplicate_; }

  bool key(string_t &name) override {
    if (depth_ > 1 || keys_.insert(name).second) return true;
    duplicate_ = name;
    return false;
  }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) override { return false; }

 private:
  bool enter() { return ++depth_ > 0; }
  bool leave() { return depth_-- > 0; }

  std::set<std::string> keys_;
  std::string duplicate_;
  size_t depth_ = 0;
};

Result<Json> parse(const std::string &where, std::string_view text) {
  if (is_nested_deeper(text, kMostNesting)) return fail("{}: nested more than {} deep", where, kMostNesting);
  try {
    return parse_json<Json>(text);
  } catch (const Json::parse_error &error) {
    return fail("{}: malformed JSON at byte {}", where, error.byte);
  } catch (const Json::out_of_range &) {
    return fail("{}: holds a number that no double can hold", where);
  }
}

}  // namespace

Result<Json> parse_object(const std::string &where, std::string_view text) {
  auto document = parse(where, text);
  if (!document) return document;
  if (!document->is_object()) return fail("{}: expected a JSON object, found {}", where, document->type_name());
  KeyWatch watch;
  if (!Json::sax_parse(text, &watch)) return fail("{}: {}: the key occurs twice", where, watch.duplicate());
  return document;
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

Result<Json> read_array(const std::string &path) {
  auto text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  auto document = parse(path, *text);
  if (document && !document->is_array())
    return fail("{}: expected a JSON array, found {}", path, document->type_name());
  return document;
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
