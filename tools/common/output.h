// Keeps the tools from destroying what they read.
#pragma once

#include <span>
#include <string>

#include "core/base/result.h"

namespace bonsai::tools {

// Refuses an output that is, by whatever path or link, one of the files that are read.
Result<void> check_output(const std::string &output, std::span<const std::string> files_read);

}  // namespace bonsai::tools
