// What every function that opens a file asks of its name.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace bonsai {

// Refuses an empty name, and one with a NUL byte: the kernel reads a name up to that, and would take another file.
// `use` is what the file is there for: "read" or "write".
Result<void> check_file_name(const std::string &path, std::string_view use);

}  // namespace bonsai
