#include "core/text/template/from_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/utf8.h"

namespace bonsai::jinja {
namespace {

using Json = nlohmann::ordered_json;

class Converter {
 public:
  Converter(Runtime &runtime, Origin origin) : runtime_(runtime), origin_(origin) {}

  Value convert(const Json &json, uint32_t depth) {
    if (runtime_.failed()) return {};
    if (depth > runtime_.limits().value_depth)
      return runtime_.fail("the variables are nested deeper than {}", runtime_.limits().value_depth);
    switch (json.type()) {
      case Json::value_t::null:
        return None();
      case Json::value_t::boolean:
        return json.get<bool>();
      case Json::value_t::number_integer:
        return json.get<int64_t>();
      case Json::value_t::number_unsigned:
        return whole(json.get<uint64_t>());
      case Json::value_t::number_float:
        return json.get<double>();
      case Json::value_t::string:
        return text(json.get_ref<const std::string &>());
      case Json::value_t::array:
        return array(json, depth);
      case Json::value_t::object:
        return object(json, depth);
      default:
        return runtime_.fail("the variables hold a {} value, which is not JSON", json.type_name());
    }
  }

 private:
  Value whole(uint64_t number) {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return runtime_.fail("the variables hold the integer {}, which exceeds 64 bits with a sign", number);
    return static_cast<int64_t>(number);
  }

  Value text(const std::string &text) {
    if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos)
      return runtime_.fail("the variables hold the text {}, which is not UTF-8 at byte offset {}", bonsai::quoted(text),
                           offset);
    return runtime_.spend(1 + text.size() / 16) ? Value(TracedText(text, origin_)) : Value();
  }

  Value array(const Json &json, uint32_t depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json &item : json) items.push_back(convert(item, depth + 1));
    return runtime_.list(std::move(items));
  }

  Value object(const Json &json, uint32_t depth) {
    DictItems items;
    items.reserve(json.size());
    for (const auto &[key, value] : json.items()) items.emplace_back(text(key), convert(value, depth + 1));
    return runtime_.dict(std::move(items));
  }

  Runtime &runtime_;
  const Origin origin_;
};

}  // namespace

Value from_json(Runtime &runtime, const Json &json, Origin origin) {
  return Converter(runtime, origin).convert(json, 0);
}

}  // namespace bonsai::jinja
