// Tokens that are outputs of the submit before, which the host has not seen yet.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_chaining_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
