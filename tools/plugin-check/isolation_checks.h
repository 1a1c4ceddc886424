// What is made apart stays apart: sessions of one device, and devices.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_isolation_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
