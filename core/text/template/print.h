// How values become text: as Python's str(), repr() and json.dumps() write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/text/template/runtime.h"

namespace bonsai::jinja {

// str(): texts as they are, with their origin; undefined is nothing; anything else has Origin::kInput.
TracedText to_text(Runtime &runtime, const Value &value);

// repr(): undefined is "Undefined".
TracedText to_repr(Runtime &runtime, const Value &value);

// Python's float.__repr__: the fewest digits that read back as the same number.
std::string print_real(double number);

struct JsonStyle {
  std::optional<std::string> indent = {};  // of one level; nullopt: all in one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

// json.dumps(). Errors: what JSON has no word for, keys that are no keys. All of it has Origin::kInput.
TracedText to_json(Runtime &runtime, const Value &value, const JsonStyle &style);

}  // namespace bonsai::jinja
