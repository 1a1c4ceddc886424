#include "core/base/file_name.h"

#include "core/base/utf8.h"

namespace bonsai {

Result<void> check_file_name(const std::string &path, std::string_view use) {
  if (path.empty()) return fail("expected the name of a file to {}, found an empty one", use);
  if (path.find('\0') != std::string::npos)
    return fail("{}: expected the name of a file to {}, found one with a NUL byte", printable(path), use);
  return {};
}

}  // namespace bonsai
