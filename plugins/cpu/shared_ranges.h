// Ranges of work that threads end together, though one of them may be slower than another for a while: on a core of
// another kind, or one of which the system or a neighbour takes a part.
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

  // Of how many least parts a range has to consist to be worth looking at, for others. A shorter one is taken at once.
  static constexpr uint64_t kLeastParts = 4;

  explicit SharedRanges(int workers) : lines_(static_cast<size_t>(workers)) {}

  // What one worker does of some work.
  class Turns {
   public:
    // The next part, or nothing once no worker has anything that is not begun.
    std::optional<UnitRange> take();
    // Where this worker goes on, if no other one takes that.
    std::optional<uint64_t> next() const;

   private:
    friend SharedRanges;
    Turns(SharedRanges &ranges, int worker, UnitRange own, uint64_t least);
    uint64_t end_of_part(UnitRange own) const;
    bool take_from_another();

    SharedRanges &ranges_;
    size_t worker_;
    uint64_t least_;
    bool shares_;
  };

  // A worker's range of some work, none of which is in another's. When all have come to their end, everybody's is empty
  // again. Parts begin and end on multiples of `least`, but where a range does.
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
