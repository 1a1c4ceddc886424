// What is opened is closed: leaks, memory as it is declared, and calls from changing threads.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_lifetime_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
