#include "tools/common/output.h"

#include <filesystem>
#include <system_error>

namespace bonsai::tools {

Result<void> check_output(const std::string &output, std::span<const std::string> files_read) {
  for (const std::string &file : files_read) {
    std::error_code ignored;  // the output need not exist
    if (!std::filesystem::equivalent(file, output, ignored)) continue;
    return fail("{}: is the input {}, expected another file", output, file);
  }
  return {};
}

}  // namespace bonsai::tools
