// How weights, keys and values are asked for before their turn. Results do not depend on it.
#pragma once

#include <cstdint>

namespace bonsai::cpu {

// Into which cache: what a processor is faster with (docs/cpu-kernels.md, "Asking for weights in time").
enum class Prefetch : uint8_t { kSecondLevel, kFirstLevel };

// That of this machine.
Prefetch best_prefetch();

}  // namespace bonsai::cpu
