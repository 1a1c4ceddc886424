// The KV cache: rollback, block copies, export and import, and the canonical layout.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_kv_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
