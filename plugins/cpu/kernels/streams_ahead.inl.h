// Asking for the weights of tiles that are multiplied side by side, each in a stream of memory of its own
// (docs/cpu-kernels.md, "Tiles side by side"). Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/packed_matrix.h"
#include "plugins/cpu/kernels/prefetch.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How far ahead in each stream weights are asked for: a whole number of blocks, at least so many bytes.
constexpr size_t kStreamAhead = 2048;

// Tiles that follow each other in each of some streams, before all streams go on behind the last one: the longer they
// are, the better; but in a call of few, where it goes on has to be known as well.
constexpr uint64_t kMostTilesOfStream = 8;
constexpr uint64_t tiles_of_stream(int streams, uint64_t tiles_left) {
  return std::min<uint64_t>(kMostTilesOfStream, tiles_left / streams);
}

// A call's tiles, which stand alone; or the same columns of each.
struct StreamedTiles {
  const uint8_t *first;
  uint64_t n;
  size_t apart;     // bytes from one to the next
  uint64_t blocks;  // of each
};

// What lies some blocks ahead in kStreams streams of such tiles, blocks of Work::kBlockStride bytes.
template <class Work, int kStreams>
class StreamsAhead {
 public:
  // `then`: what is read behind them; if that is not known, as many tiles that follow.
  StreamsAhead(const StreamedTiles &tiles, const ReadingPlace &then) : tiles_(tiles), tiles_left_(tiles.n) {
    constexpr uint64_t kBlocks = (kStreamAhead + Work::kBlockStride - 1) / Work::kBlockStride;
    const auto first = reinterpret_cast<uintptr_t>(tiles.first);
    then_ = then.begin ? reinterpret_cast<uintptr_t>(then.begin) : first + tiles.n * tiles.apart;
    then_apart_ =
        tiles_of_stream(kStreams, then.begin ? then.tiles : tiles.n) * (then.begin ? then.strip_bytes : tiles.apart);
    begin_streams(first);
    for (uint64_t i = 0; i < kBlocks; ++i) go_on();
  }

  // A block's address, as there need not be anything.
  uintptr_t block(int stream) const { return next_ + stream * apart_; }

  // Asks for a block of each.
  [[gnu::always_inline]] void ask() const {
    asm volatile("" ::: "memory");  // all of it together: see ask_for_both
#pragma GCC unroll 4
    for (int i = 0; i < kStreams; ++i) prefetch_at<Work>(block(i), Work::kBlockStride);
    asm volatile("" ::: "memory");
  }

  [[gnu::always_inline]] void go_on() {
    next_ += Work::kBlockStride;
    if (--blocks_left_ == 0) end_tile();
  }

 private:
  void end_tile() {
    next_ += tiles_.apart - tiles_.blocks * Work::kBlockStride;
    blocks_left_ = tiles_.blocks;
    if (--tiles_of_stream_ == 0) begin_streams(next_ + (kStreams - 1) * apart_);
  }

  // The tiles that are left over without streams are not asked for here.
  void begin_streams(uintptr_t at) {
    tiles_of_stream_ = tiles_of_stream(kStreams, tiles_left_);
    tiles_left_ -= kStreams * tiles_of_stream_;
    const bool ends = tiles_of_stream_ == 0;
    next_ = ends ? then_ : at;
    apart_ = ends ? then_apart_ : tiles_of_stream_ * tiles_.apart;
    blocks_left_ = ends ? UINT64_MAX : tiles_.blocks;
  }

  StreamedTiles tiles_;
  uint64_t tiles_left_, tiles_of_stream_ = 0, blocks_left_ = 0;
  uintptr_t next_ = 0, then_;  // of the first stream
  size_t apart_ = 0, then_apart_;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
