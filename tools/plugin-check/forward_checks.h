// Levels 1 and 2: whole models against the judge, in every dtype, batch, shape of heads and placement.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_forward_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
