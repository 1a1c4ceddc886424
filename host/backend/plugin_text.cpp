#include "host/backend/plugin_text.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/utf8.h"

namespace bonsai::host {
namespace {

void replace_ill_formed_bytes(std::string &text) {
  for (size_t from = 0; from < text.size();) {
    const size_t offset = find_invalid_utf8(std::string_view(text).substr(from));
    if (offset == std::string::npos) return;
    text[from + offset] = '?';
    from += offset + 1;
  }
}

// A terminal acts on C0 and on C1 control characters; the latter are U+0080 to U+009F, C2 80 to C2 9F in UTF-8.
void replace_control_characters(std::string &text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n' || byte == '\r' || byte == '\t') {
      text[i] = ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      text[i] = '?';
    } else if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      text.replace(i, 2, "?");
    }
  }
}

}  // namespace

std::string plugin_text(const char *text, size_t max_bytes) {
  if (text == nullptr) return {};
  std::string result(text, strnlen(text, max_bytes));
  replace_ill_formed_bytes(result);
  replace_control_characters(result);
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::string status_name(bonsai_status status) {
  switch (status) {
    case BONSAI_OK:
      return "ok";
    case BONSAI_INVALID_ARGUMENT:
      return "invalid argument";
    case BONSAI_UNSUPPORTED:
      return "unsupported";
    case BONSAI_OUT_OF_MEMORY:
      return "out of memory";
    case BONSAI_DEVICE_LOST:
      return "device lost";
    case BONSAI_INTERNAL:
      return "internal error";
    default:
      return fmt::format("unknown status {}", status);
  }
}

CallError::CallError() { raw_.struct_size = sizeof raw_; }

std::string CallError::message() const { return plugin_text(raw_.message, sizeof raw_.message); }

BackendError CallError::failure(std::string_view backend, std::string_view function, bonsai_status status) const {
  const std::string words = message();
  BackendError error;
  if (!thrown_.empty()) {
    const std::string thrown = plugin_text(thrown_.c_str(), sizeof raw_.message);
    error.message = fmt::format("{}: {} threw an exception{}", backend, function, thrown);
    return error;
  }
  error.status = status <= BONSAI_INTERNAL ? status : bonsai_status{BONSAI_INTERNAL};
  error.message = words.empty()
                      ? fmt::format("{}: {} failed without a message ({})", backend, function, status_name(status))
                      : fmt::format("{}: {} ({})", backend, words, status_name(status));
  return error;
}

}  // namespace bonsai::host
