// What the lanes of a warp, or the threads of a block, do together.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>

#include "tests/plugins/cuda/emulator/device.h"

namespace bonsai::emulation {

inline constexpr unsigned kLanes = 32;

// A lane's part in it, on the lane's stack while it waits.
struct Collective {
  enum class Kind {
    kSyncBlock,
    kSyncWarp,
    kWaitForKernels,
    kShuffle,
    kBallot,
    kMmaS8K32,
    kMmaS8K16,
    kMmaF16K16,
    kMmaB1K128
  };
  Kind kind;
  const Where &where;
  void *operands = nullptr;  // a Shuffle, Ballot or Mma
};

struct Shuffle {
  uint32_t value;
  unsigned from;
  uint32_t result;
};

struct Ballot {
  bool predicate;
  unsigned result;
};

struct Mma {
  void *c;  // 4 ints or floats
  const uint32_t *a, *b;
};

// Whether two lanes have come to the same place in the source.
bool same_place(const Collective &a, const Collective &b);

// "sync_warp (reduce.cu:12)"
std::string describe(const Collective &collective);

// Does what a warp's 32 lanes wait for.
void perform(std::span<const Collective *const, kLanes> lanes);

}  // namespace bonsai::emulation
