// Asking for weights before their turn. Left to the hardware, one-bit weights in memory come at half the speed or less
// (docs/cpu-kernels.md has the measurements behind every number here). Part of a tier: see simd/portable/vector.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A matrix's weights up to those of a call's last row, which are read one after the other, and what is read after them.
class WeightStream {
 public:
  WeightStream(const MatmulArgs &args, CodeLayout layout) {
    const uint64_t blocks = args.matrix->columns / layout.columns(), tiles = tile_count(args.last_row);
    const uint64_t whole_strips = (tiles + layout.strip_tiles - 1) / layout.strip_tiles * layout.strip_tiles;
    end_ = reinterpret_cast<uintptr_t>(args.matrix->data) + TilePlace::find(layout, blocks, whole_strips).scales;
    to_next_ = args.then ? reinterpret_cast<uintptr_t>(args.then) - end_ : 0;
  }

  uintptr_t ahead(const uint8_t *from, size_t bytes) const {
    const uintptr_t at = reinterpret_cast<uintptr_t>(from) + bytes;
    return at < end_ ? at : at + to_next_;
  }

 private:
  uintptr_t end_;
  uintptr_t to_next_;  // from the end, around zero if it lies before. 0: what lies behind is asked for
};

// Into the second-level cache, whose misses may wait in greater number. A core drops requests while too many of its
// misses are open: where memory is what takes time, everything is asked for once more while it still helps.
constexpr size_t kFarAhead = 8192, kNearAhead = 4096;

// Addresses, not pointers: there need not be anything. Always inline, all of these: GCC 12 drops calls of functions
// that do nothing else.
[[gnu::always_inline]] inline void prefetch_at(uintptr_t at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void *>(at + i), 0, 1);
}

[[gnu::always_inline]] inline void prefetch_far(const uint8_t *from, size_t bytes, const WeightStream &stream) {
  prefetch_at(stream.ahead(from, kFarAhead), bytes);
}

[[gnu::always_inline]] inline void prefetch_twice(const uint8_t *from, size_t bytes, const WeightStream &stream) {
  prefetch_far(from, bytes, stream);
  prefetch_at(stream.ahead(from, kNearAhead), bytes);
}

// The same for a part of a super-block. Its kernels have no registers left for a stream's end.
[[gnu::always_inline]] inline void prefetch_super_block(const uint8_t *from, size_t bytes) {
  prefetch_at(reinterpret_cast<uintptr_t>(from) + kFarAhead, bytes);
  prefetch_at(reinterpret_cast<uintptr_t>(from) + kNearAhead, bytes);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
