#include "core/base/program_path.h"

#include <sys/auxv.h>

#include <system_error>

namespace bonsai {

namespace fs = std::filesystem;

fs::path program_path(const fs::path &link) {
  std::error_code error;
  const fs::path program = fs::read_symlink(link, error);
  if (!error) return program;
  const auto *started_by = reinterpret_cast<const char *>(::getauxval(AT_EXECFN));
  if (started_by == nullptr) return {};
  const fs::path found = fs::canonical(started_by, error);
  return error ? fs::path() : found;
}

}  // namespace bonsai
