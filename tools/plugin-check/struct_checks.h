// Promises about structs: they may grow, and a backend that knows them as they are works on.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_struct_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
