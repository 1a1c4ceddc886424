// The k highest ranks of a row, by one block.
//
// The row's segments have left their highest ranks. The k-th highest of these is a bound: k ranks reach it, one of each
// of k segments, so the k that are looked for reach it too, and they lie in these k segments. Their ranks are read
// once; those that reach the bound, hardly more than k of logits that are in no order, are sorted in shared memory.
// Where more of them do than fit there (half a vocabulary of equal logits), the exact k-th highest is looked for first.
// Ranks are all different, so the result does not depend on the order in which they were found.
#pragma once

#include "selection.cuh"

namespace bonsai::cuda {

inline constexpr uint32_t kFoundRanks = 4096;  // a power of two, at least kMaxSelected
inline constexpr uint32_t kDigits = 256;

struct TopScratch {
  uint64_t found[kFoundRanks];
  uint32_t digits[kDigits];  // how many ranks have the digit
  uint32_t digit;            // the k-th highest's
  uint32_t before;           // ranks with a higher digit
  uint32_t n_equal;          // ranks with this one
  uint32_t n_found;
};

inline uint32_t count_bits(uint32_t bits) {
  bits -= bits >> 1 & 0x55555555u;
  bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0Fu;
  return bits * 0x01010101u >> 24;
}

// A row's logits and the highest rank of each segment.
struct RankedRow {
  const float *logits;       // (vocab)
  const uint64_t *segments;  // (n_segments)
  uint32_t vocab, n_segments;

  // Calls visit(rank) in all lanes of every warp, with 0 where a lane has none.
  template <class Visit>
  void each_segment(const Visit &visit) const {
    for (uint32_t first = 0; first < n_segments; first += block_threads()) {
      const uint32_t i = first + thread();
      visit(i < n_segments ? segments[i] : 0);
    }
  }

  // The same of the logits of segments that reach `bound`, which is not 0: a warp looks at 32 segments, then reads
  // those.
  template <class Visit>
  void each_logit(uint64_t bound, const Visit &visit) const {
    for (uint32_t first = warp() * kWarp; first < n_segments; first += block_threads()) {
      const uint32_t mine = first + lane();
      uint32_t reached = ballot(mine < n_segments && segments[mine] >= bound);
      for (uint32_t segment = first; reached != 0; ++segment, reached >>= 1) {
        if ((reached & 1) == 0) continue;
        const uint32_t id = segment * kSelectSegment + lane();
        const float low = id < vocab ? logits[id] : 0.0f;
        const float high = id + kWarp < vocab ? logits[id + kWarp] : 0.0f;
        visit(id < vocab ? rank_of(low, id) : 0);
        visit(id + kWarp < vocab ? rank_of(high, id + kWarp) : 0);
      }
    }
  }
};

// Counts a rank's digit. Most ranks of a warp have the same high digits: those that lane 0 has are counted at once.
inline void count_digit(bool counts, uint32_t digit, uint32_t *digits) {
  const uint32_t mine = counts ? digit : kDigits;
  const uint32_t firsts = shuffle(mine, 0);
  const bool as_first = counts && mine == firsts;
  const uint32_t n = count_bits(ballot(as_first));
  if (lane() == 0 && counts) atomic_add(&digits[mine], n);
  if (counts && !as_first) atomic_add(&digits[mine], 1);
}

// By one warp: finds in scratch.digits the digit of the k-th highest, and how many are above and beside it.
inline void find_digit(uint32_t k, TopScratch &scratch) {
  constexpr uint32_t kMine = kDigits / kWarp;
  const uint32_t top = kDigits - 1 - lane() * kMine;  // lane 0 has the highest digits
  uint32_t n = 0;
  for (uint32_t i = 0; i < kMine; ++i) n += scratch.digits[top - i];
  uint32_t reached = n;
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    const uint32_t above = shuffle(reached, (lane() - distance) % kWarp);
    if (lane() >= distance) reached += above;
  }
  uint32_t before = reached - n;
  if (before >= k || reached < k) return;  // the digit is another lane's
  uint32_t digit = top;
  while (before + scratch.digits[digit] < k) before += scratch.digits[digit--];
  scratch.digit = digit;
  scratch.before = before;
  scratch.n_equal = scratch.digits[digit];
}

// A bound that exactly k of the ranks reach that walk(visit) visits; there are at least k. Digit by digit from the
// highest, until all that have the same digits so far are among the k.
template <class Walk>
uint64_t kth_highest(const Walk &walk, uint32_t k, TopScratch &scratch) {
  uint64_t known = 0;
  for (unsigned shift = 56;; shift -= 8) {
    for (uint32_t i = thread(); i < kDigits; i += block_threads()) scratch.digits[i] = 0;
    sync_block();
    walk([&](uint64_t rank) {
      const uint64_t rest = rank >> shift;
      count_digit(rank != 0 && rest >> 8 == known, static_cast<uint32_t>(rest) % kDigits, scratch.digits);
    });
    sync_block();
    if (warp() == 0) find_digit(k, scratch);
    sync_block();
    known = known << 8 | scratch.digit;
    k -= scratch.before;
    if (shift == 0 || scratch.n_equal == k) return larger(known << shift, 1);
  }
}

// Collects the row's ranks that reach `bound`, in any order. Returns how many there are; kept are as many as fit.
inline uint32_t find_ranks(const RankedRow &row, uint64_t bound, TopScratch &scratch) {
  if (thread() == 0) scratch.n_found = 0;
  sync_block();
  row.each_logit(bound, [&](uint64_t rank) {
    if (rank < bound) return;
    const uint32_t place = atomic_add(&scratch.n_found, 1);
    if (place < kFoundRanks) scratch.found[place] = rank;
  });
  sync_block();
  return scratch.n_found;
}

// Sorts the n found ranks in falling order: a bitonic network (K. E. Batcher, "Sorting networks and their
// applications", 1968) over the next power of two. Partners that are at most a warp apart are one warp's own.
inline void sort_found(uint32_t n, TopScratch &scratch) {
  uint32_t size = 2;
  while (size < n) size *= 2;
  for (uint32_t i = n + thread(); i < size; i += block_threads()) scratch.found[i] = 0;
  sync_block();
  for (uint32_t width = 2; width <= size; width *= 2) {
    for (uint32_t step = width / 2; step > 0; step /= 2) {
      for (uint32_t i = thread(); i < size / 2; i += block_threads()) {
        const uint32_t place = 2 * i - i % step;
        uint64_t &a = scratch.found[place], &b = scratch.found[place + step];
        const bool falling = (place & width) == 0;
        if ((a < b) != falling) continue;
        const uint64_t swapped = a;
        a = b;
        b = swapped;
      }
      const uint32_t next = step > 1 ? step / 2 : width;
      if (step > kWarp || next > kWarp) {
        sync_block();
      } else {
        sync_warp();
      }
    }
  }
  sync_block();
}

// Leaves the k highest ranks of a row in scratch.found, in falling order. k <= vocab.
inline void find_top(const RankedRow &row, uint32_t k, TopScratch &scratch) {
  uint64_t bound = 1;
  if (row.n_segments > k) {
    bound = kth_highest([&](const auto &visit) { row.each_segment(visit); }, k, scratch);
  }
  uint32_t n = find_ranks(row, bound, scratch);
  if (n > kFoundRanks) {
    bound = kth_highest([&](const auto &visit) { row.each_logit(bound, visit); }, k, scratch);
    n = find_ranks(row, bound, scratch);
  }
  sort_found(n, scratch);
}

}  // namespace bonsai::cuda
