// Work that threads end together, though one of them may be slower than the others: for good, on a core of another
// kind, or for a while, as the system or a neighbour takes a part of its core.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace bonsai::cpu {

// Units of work [begin, end).
struct UnitRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
};

// Every worker has a range of its own and takes it in parts from the front, large ones first, so that they are few. Who
// has none left takes the back half of what another one has not begun, and goes on with that in the same way.
class SharedRanges {
 public:
  static constexpr uint64_t kMostUnits = UINT32_MAX;

  // A worker whose own range has fewer than so many least parts takes it at once, and nothing of others'.
  static constexpr uint64_t kLeastParts = 4;

  explicit SharedRanges(int workers) : lines_(static_cast<size_t>(workers)) {}

  // What one worker does of some work.
  class Turns {
   public:
    // The next part, or nothing once all is begun or about to be.
    std::optional<UnitRange> take();
    // The part that this worker goes on with, if no other one takes any of it.
    std::optional<UnitRange> next() const;

   private:
    friend SharedRanges;
    Turns(SharedRanges &ranges, int worker, UnitRange own, uint64_t least);
    uint64_t end_of_part(UnitRange own) const;
    std::optional<UnitRange> take_from_another();

    SharedRanges &ranges_;
    size_t worker_;
    uint64_t least_;
    bool shares_;
  };

  // A worker's range of some work, none of which is in another's. Parts begin and end on multiples of `least`, but
  // where a range does. Every worker that has begun must take() until there is nothing: what is left of one work would
  // be taken for a part of the next one.
  Turns begin(int worker, UnitRange own, uint64_t least) { return {*this, worker, own, least}; }

 private:
  static constexpr uint64_t pack(UnitRange range) { return range.begin << 32 | range.end; }
  static constexpr UnitRange range_of(uint64_t packed) { return {packed >> 32, packed & kMostUnits}; }

  struct alignas(64) Line {
    std::atomic<uint64_t> packed{0};
  };
  std::vector<Line> lines_;  // what every worker has not begun
};

}  // namespace bonsai::cpu
