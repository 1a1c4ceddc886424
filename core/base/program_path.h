// Where the running program lies, for what is installed beside it.
#pragma once

#include <filesystem>

namespace bonsai {

// The absolute path of the program's file, links resolved; empty where the system does not say. `link` is what Linux
// links to it; without a /proc it is what the program was started by, seen from the process's directory of this moment.
std::filesystem::path program_path(const std::filesystem::path &link = "/proc/self/exe");

}  // namespace bonsai
