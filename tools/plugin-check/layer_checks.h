// Parts of a layer that Qwen3 does not use but the ABI has: biases, no head norms, partial rotation.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_layer_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
