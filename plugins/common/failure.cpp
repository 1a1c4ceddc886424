#include "plugins/common/failure.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/base/utf8.h"

namespace bonsai::plugin {
namespace {

// As much as there is room for, with '?' for what a line of text does not have: a message may quote the caller.
void copy_line(std::string_view text, char *to, size_t room) noexcept {
  while (!text.empty()) {
    const size_t length = printable_character(text);
    const std::string_view shown = length > 0 ? text.substr(0, length) : "?";
    if (shown.size() >= room) break;
    to = std::copy(shown.begin(), shown.end(), to);
    room -= shown.size();
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  *to = '\0';
}

}  // namespace

bonsai_status report(bonsai_error *error, bonsai_status status, const char *message) noexcept {
  if (!error) return status;
  if (BONSAI_HAS_FIELD(error, bonsai_error, code)) error->code = status;
  if (!BONSAI_HAS_FIELD(error, bonsai_error, message)) return status;
  copy_line(message, error->message, sizeof error->message);
  return status;
}

}  // namespace bonsai::plugin
