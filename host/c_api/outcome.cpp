#include "host/c_api/outcome.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "core/base/utf8.h"

namespace bonsai::c_api {

void copy_text(std::string_view text, char *to, size_t size) {
  if (size == 0) return;
  size_t n = std::min(text.size(), size - 1);
  const auto continues = [&text](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  while (n > 0 && n < text.size() && continues(n)) --n;
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

bonsai_outcome report(bonsai_failure *failure, bonsai_outcome outcome, std::string_view message) noexcept {
  constexpr size_t kBefore = offsetof(bonsai_failure, message);
  if (failure == nullptr || failure->struct_size < kBefore) return outcome;
  const size_t room = std::min<size_t>(failure->struct_size - kBefore, sizeof failure->message);
  try {
    copy_text(printable(message), failure->message, room);
  } catch (const std::exception &) {
    outcome = BONSAI_NO_MEMORY;
    copy_text("out of memory", failure->message, room);
  }
  failure->outcome = outcome;
  if (failure->struct_size > sizeof *failure)  // what a newer caller knows of it and this library does not
    std::memset(failure + 1, 0, failure->struct_size - sizeof *failure);
  return outcome;
}

bonsai_outcome outcome_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return BONSAI_BAD_ARGUMENT;
    case ErrorKind::kModel:
      return BONSAI_BAD_MODEL;
    case ErrorKind::kBackend:
      return BONSAI_BACKEND_FAILED;
    case ErrorKind::kContextFull:
      return BONSAI_CONTEXT_FULL;
  }
  return BONSAI_FAILED;
}

void refuse(const std::string &message) { throw EngineError(ErrorKind::kInvalidArgument, message); }

}  // namespace bonsai::c_api
