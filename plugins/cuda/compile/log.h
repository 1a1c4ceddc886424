// Lines for the host's log: a callback, or nothing.
#pragma once

#include <bonsai/backend.h>

#include <functional>
#include <string>

namespace bonsai::cuda {

// Called from any thread with one line. Empty: no log.
using Log = std::function<void(bonsai_log_level, const std::string &)>;

}  // namespace bonsai::cuda
