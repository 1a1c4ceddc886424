// Asking for weights before their turn. Left to the hardware, one-bit weights in memory come at half the speed or less
// (docs/cpu-decoding.md has the measurements behind the numbers here, and docs/cpu-measurements.md, "Granite Rapids",
// those behind late ones). Part of a tier: see simd/portable/vector.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Kernels that ask for weights are templates of a Work of some kind, a format's codes or tables of sums. This is the
// same work with weights asked for otherwise. The choice is made outside the loops: a branch within them would bring
// all requests of a step together, and more of them get lost (docs/cpu-decoding.md, "Zen 5").
template <class Work, Prefetch kHow>
struct Asking : Work {};

template <class Work>
constexpr Prefetch kPrefetchOf = Prefetch::kSecondLevel;
template <class Work, Prefetch kHow>
constexpr Prefetch kPrefetchOf<Asking<Work, kHow>> = kHow;

// The same work with tiles side by side, whose requests go into the first level: once, by addresses of their own.
template <class Work>
struct SideBySide : Work {};
template <class Work>
constexpr Prefetch kPrefetchOf<SideBySide<Work>> = Prefetch::kFirstLevel;

template <class Work>
constexpr bool kIsSideBySide = false;
template <class Work>
constexpr bool kIsSideBySide<SideBySide<Work>> = true;

template <class Work>
constexpr bool kIntoFirstLevel = kPrefetchOf<Work> == Prefetch::kFirstLevel;

// Calls body(a Work that asks so), of which only the type matters.
template <class Work, class Body>
[[gnu::always_inline]] inline void with_requests(Prefetch how, const Body &body) {
  if (how == Prefetch::kFirstLevel) return body(Asking<Work, Prefetch::kFirstLevel>());
  if (how == Prefetch::kSecondLevelLate) return body(Asking<Work, Prefetch::kSecondLevelLate>());
  body(Work());
}

// The same where it only matters into which cache.
template <class Work, class Body>
[[gnu::always_inline]] inline void with_requests_into_cache(Prefetch how, const Body &body) {
  if (how == Prefetch::kFirstLevel) return body(Asking<Work, Prefetch::kFirstLevel>());
  body(Work());
}

// Whether a Work looks sums up in tables, as 1-bit and ternary weights have them.
template <class Work>
constexpr bool kLooksUp = requires {
  Work::kElements;
};

// How far ahead weights are asked for. A core drops requests while too many of its misses are open: where memory is
// what takes time, everything is asked for once more while it still helps.
constexpr size_t far_ahead(Prefetch how, bool looks_up) {
  if (how == Prefetch::kFirstLevel) return 10240;
  if (how == Prefetch::kSecondLevelLate) return 3072;
  return looks_up ? 24576 : 8192;
}
template <class Work>
constexpr size_t kFarAhead = far_ahead(kPrefetchOf<Work>, kLooksUp<Work>);
template <class Work>
constexpr size_t kNearAhead = kFarAhead<Work> / 2;

// The nearest number of whole blocks, of which it is at least one.
constexpr size_t round_to_blocks(size_t bytes, size_t block_bytes) {
  const size_t blocks = (bytes + block_bytes / 2) / block_bytes;
  return (blocks > 0 ? blocks : 1) * block_bytes;
}

// How long what is asked for is to stay, as __builtin_prefetch has it: in the second level and farther, in all, or,
// with tiles side by side, in none but the first.
template <class Work>
constexpr int kLocality = kIsSideBySide<Work>     ? 0
                          : kIntoFirstLevel<Work> ? 3
                                                  : 1;

// Addresses, not pointers: there need not be anything. Always inline, all of these: GCC 12 drops calls of functions
// that do nothing else.
template <class Work>
[[gnu::always_inline]] inline void prefetch_at(uintptr_t at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void *>(at + i), 0, kLocality<Work>);
  }
}

// A matrix's weights up to those of a call's last row, which are read one after the other, and what is read after them.
class WeightStream {
 public:
  WeightStream(const MatmulArgs &args, CodeLayout layout) {
    const uint64_t blocks = args.matrix->columns / layout.columns(), tiles = tile_count(args.last_row);
    const uint64_t whole_strips = (tiles + layout.strip_tiles - 1) / layout.strip_tiles * layout.strip_tiles;
    end_ = reinterpret_cast<uintptr_t>(args.matrix->data) + TilePlace::find(layout, blocks, whole_strips).scales;
    to_next_ = args.then.begin ? reinterpret_cast<uintptr_t>(args.then.begin) - end_ : 0;
  }

  // What lies so many bytes behind `from`, as if what is read next followed.
  uintptr_t ahead(const uint8_t *from, size_t bytes) const {
    const uintptr_t at = reinterpret_cast<uintptr_t>(from) + bytes;
    return at < end_ ? at : at + to_next_;
  }

 private:
  uintptr_t end_;
  uintptr_t to_next_;  // from the end, around zero if it lies before. 0: what lies behind is asked for
};

template <class Work>
[[gnu::always_inline]] inline void prefetch_far(const uint8_t *from, size_t bytes, const WeightStream &stream) {
  prefetch_at<Work>(stream.ahead(from, kFarAhead<Work>), bytes);
}

template <class Work>
[[gnu::always_inline]] inline void prefetch_near(const uint8_t *from, size_t bytes, const WeightStream &stream) {
  prefetch_at<Work>(stream.ahead(from, kNearAhead<Work>), bytes);
}

// Calls both, which ask. Into the first level near lines and then far ones, each together: that is faster by a tenth
// than what GCC makes of them, who mixes requests with each other and with the arithmetic. Into the second level it is
// the other way.
template <class Work, class Far, class Near>
[[gnu::always_inline]] inline void ask_for_both(Far far, Near near) {
  if constexpr (kIntoFirstLevel<Work>) {
    asm volatile("" ::: "memory");
    near();
    asm volatile("" ::: "memory");
    far();
    asm volatile("" ::: "memory");
  } else {
    far();
    near();
  }
}

template <class Work>
[[gnu::always_inline]] inline void prefetch_both(const uint8_t *far_from, const uint8_t *near_from, size_t bytes,
                                                 const WeightStream &stream) {
  ask_for_both<Work>(
      [&]() __attribute__((always_inline)) { prefetch_far<Work>(far_from, bytes, stream); },
      [&]() __attribute__((always_inline)) { prefetch_near<Work>(near_from, bytes, stream); });
}

template <class Work>
[[gnu::always_inline]] inline void prefetch_twice(const uint8_t *from, size_t bytes, const WeightStream &stream) {
  prefetch_both<Work>(from, from, bytes, stream);
}

// The same for a part of a super-block. Its kernels have no registers left for a stream's end.
template <class Work>
[[gnu::always_inline]] inline void prefetch_super_block(uintptr_t at, size_t bytes) {
  if constexpr (kIsSideBySide<Work>) {
    prefetch_at<Work>(at, bytes);
  } else {
    prefetch_at<Work>(at + kFarAhead<Work>, bytes);
    prefetch_at<Work>(at + kNearAhead<Work>, bytes);
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
