// Level 0: which dtypes are claimed, what weights are kept of the caller's memory, and products.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_gemv_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
