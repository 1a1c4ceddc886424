// What can be known about a shared object before it is loaded.
#pragma once

#include <filesystem>

#include "core/base/result.h"

namespace bonsai::host {

// Whether `path` is an ELF shared object all of whose segments lie inside the file, and whose dynamic section and the
// tables that it names hold something. The dynamic loader maps segments without comparing them to the file's size and
// dies of SIGBUS when a half-copied plugin's are touched, or of SIGSEGV where such a copy goes on in zeros; that must
// be an error instead. The message is a reason without the path.
Result<void> check_shared_object(const std::filesystem::path &path);

}  // namespace bonsai::host
