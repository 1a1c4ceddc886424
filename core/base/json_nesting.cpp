#include "core/base/json_nesting.h"

#include <vector>

namespace bonsai {
namespace {

// Calls `visit` with every character outside of strings, and with the quotation mark that begins one, until it returns
// true. Whether it did.
template <class Visit>
bool any_outside_strings(std::string_view json, Visit visit) {
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else {
      in_string = c == '"';
      if (visit(c)) return true;
    }
  }
  return false;
}

bool opens(char c) { return c == '[' || c == '{'; }
bool closes(char c) { return c == ']' || c == '}'; }

}  // namespace

bool is_nested_deeper(std::string_view json, size_t most) {
  size_t depth = 0;
  return any_outside_strings(json, [&](char c) {
    if (opens(c)) return ++depth > most;
    if (closes(c) && depth > 0) --depth;
    return false;
  });
}

// Each name has a colon behind it, and there are no others.
bool has_more_names(std::string_view json, size_t most) {
  std::vector<size_t> n_names = {0};  // of what is open at each depth
  return any_outside_strings(json, [&](char c) {
    if (opens(c)) n_names.push_back(0);
    if (closes(c) && n_names.size() > 1) n_names.pop_back();
    return c == ':' && ++n_names.back() > most;
  });
}

bool has_more_parts(std::string_view json, size_t most) {
  size_t n = 0;
  return any_outside_strings(json, [&](char c) { return (opens(c) || c == '"') && ++n > most; });
}

}  // namespace bonsai
