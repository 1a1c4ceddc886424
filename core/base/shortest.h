// Numbers as they are written.
#pragma once

#include <fmt/format.h>

#include <string>

namespace bonsai {

// As it is written in decimal, not with the digits that it takes on in a wider number: 0.6, not 0.60000002384185791.
inline double shortest(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace bonsai
