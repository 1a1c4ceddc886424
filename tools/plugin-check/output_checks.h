// Outputs of every kind: selection, adjustments, ties, and submits in flight.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_output_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
