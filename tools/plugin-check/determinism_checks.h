// BONSAI_FEATURE_DETERMINISTIC: the same request, the same bytes.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_determinism_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
