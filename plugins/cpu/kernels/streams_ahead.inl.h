// Asking for the weights of tiles that are multiplied side by side (stream_places.h). Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/stream_places.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How far ahead in each stream weights are asked for: a whole number of blocks, at least so many bytes.
constexpr size_t kStreamAhead = 2048;

// What lies some blocks ahead in kStreams streams of tiles, blocks of Work::kBlockStride bytes.
template <class Work, int kStreams>
class StreamsAhead : public StreamPlaces<kStreams, Work::kBlockStride> {
 public:
  StreamsAhead(const StreamedTiles &tiles, const ReadingPlace &then)
      : StreamPlaces<kStreams, Work::kBlockStride>(tiles, then) {
    constexpr size_t kBlocks = (kStreamAhead + Work::kBlockStride - 1) / Work::kBlockStride;
    for (size_t i = 0; i < kBlocks; ++i) this->go_on();
  }

  // Asks for a block of each.
  [[gnu::always_inline]] void ask() const {
    asm volatile("" ::: "memory");  // all of it together: see ask_for_both
#pragma GCC unroll 4
    for (int i = 0; i < kStreams; ++i) prefetch_at<Work>(this->block(i), Work::kBlockStride);
    asm volatile("" ::: "memory");
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
