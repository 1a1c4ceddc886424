// How weights, keys and values are asked for before their turn. Results do not depend on it.
#pragma once

#include <cstdint>

namespace bonsai::cpu {

// Into which cache, and of weights how early and in how many streams: what a processor is faster with
// (docs/cpu-decoding.md, "Asking for weights in time", "Zen 5", "Two streams", "Long streams").
enum class Prefetch : uint8_t {
  kSecondLevel,
  kFirstLevel,  // requests nearer to their use; rows of floats in streams and, with AVX-512, tiles
  kSecondLevelLate,
  kSecondLevelTwoStreams,  // two strips of weights side by side, where sums for few vectors are looked up
};

// That of this machine.
Prefetch best_prefetch();

}  // namespace bonsai::cpu
