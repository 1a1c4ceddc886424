// Bad models and configurations for sessions.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_creation_argument_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
