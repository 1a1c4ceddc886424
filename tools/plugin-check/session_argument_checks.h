// Bad batches, outputs and KV calls: the documented status, a readable message, and nothing changed.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_session_argument_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
