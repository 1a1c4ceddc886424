// What a backend says about where its time goes.
#pragma once

#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {

void add_profile_checks(std::vector<Check> &checks);

}  // namespace bonsai::check
