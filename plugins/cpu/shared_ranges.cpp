#include "plugins/cpu/shared_ranges.h"

#include <algorithm>
#include <cassert>

namespace bonsai::cpu {

// All orders are relaxed: these numbers are all that workers tell each other here. What they work on was there before
// any of them began, and what they have made is read once all have ended.

SharedRanges::Turns::Turns(SharedRanges &ranges, int worker, UnitRange own, uint64_t least)
    : ranges_(ranges),
      worker_(static_cast<size_t>(worker)),
      least_(least),
      shares_(ranges.lines_.size() > 1 && own.size() >= kLeastParts * least) {
  std::atomic<uint64_t> &line = ranges_.lines_[worker_].packed;
  assert(range_of(line.load(std::memory_order_relaxed)).size() == 0);
  line.store(pack(own), std::memory_order_relaxed);
}

std::optional<UnitRange> SharedRanges::Turns::take() {
  std::atomic<uint64_t> &line = ranges_.lines_[worker_].packed;
  uint64_t packed = line.load(std::memory_order_relaxed);
  for (UnitRange own = range_of(packed); own.size() > 0; own = range_of(packed)) {
    const uint64_t end = end_of_part(own);
    if (line.compare_exchange_weak(packed, pack({end, own.end}), std::memory_order_relaxed)) {
      return UnitRange{own.begin, end};
    }
  }
  return shares_ ? take_from_another() : std::nullopt;
}

std::optional<UnitRange> SharedRanges::Turns::next() const {
  const UnitRange own = range_of(ranges_.lines_[worker_].packed.load(std::memory_order_relaxed));
  return own.size() > 0 ? std::optional(UnitRange{own.begin, end_of_part(own)}) : std::nullopt;
}

uint64_t SharedRanges::Turns::end_of_part(UnitRange own) const {
  if (!shares_) return own.end;
  const uint64_t half = own.begin + (own.size() + 1) / 2;
  return std::min(own.end, (half + least_ - 1) / least_ * least_);
}

// Makes the back half of another one's range this worker's own, and takes the first part of it.
std::optional<UnitRange> SharedRanges::Turns::take_from_another() {
  const size_t n = ranges_.lines_.size();
  for (size_t i = 1; i < n; ++i) {
    std::atomic<uint64_t> &line = ranges_.lines_[(worker_ + i) % n].packed;
    uint64_t packed = line.load(std::memory_order_relaxed);
    for (UnitRange theirs = range_of(packed); theirs.size() > 0; theirs = range_of(packed)) {
      const uint64_t middle = (theirs.begin + theirs.size() / 2) / least_ * least_;
      const UnitRange own = {std::max(theirs.begin, middle), theirs.end};
      if (line.compare_exchange_weak(packed, pack({theirs.begin, own.begin}), std::memory_order_relaxed)) {
        const uint64_t end = end_of_part(own);
        ranges_.lines_[worker_].packed.store(pack({end, own.end}), std::memory_order_relaxed);
        return UnitRange{own.begin, end};
      }
    }
  }
  return std::nullopt;
}

}  // namespace bonsai::cpu
