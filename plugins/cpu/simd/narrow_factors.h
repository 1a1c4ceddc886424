// Panels of many vectors multiply sums with integers in 16 bits, two at a time: the usual vocabulary is enough.
#pragma once

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr bool kWideFactors = false;

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
