#include "plugins/common/failure.h"

#include <algorithm>
#include <cstring>

namespace bonsai::plugin {

bonsai_status report(bonsai_error *error, bonsai_status status, const char *message) noexcept {
  if (!error) return status;
  if (BONSAI_HAS_FIELD(error, bonsai_error, code)) error->code = status;
  if (!BONSAI_HAS_FIELD(error, bonsai_error, message)) return status;
  size_t length = std::min(std::strlen(message), sizeof error->message - 1);
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(message[at]) & 0xC0) == 0x80; };
  while (length > 0 && continues(length)) --length;
  std::memcpy(error->message, message, length);
  error->message[length] = '\0';
  return status;
}

}  // namespace bonsai::plugin
