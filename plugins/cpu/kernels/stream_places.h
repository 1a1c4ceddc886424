// Where the weights of tiles lie that are multiplied side by side, each in a stream of memory of its own
// (docs/cpu-decoding.md, "Long streams"). Always inline, all of it: the linker keeps one copy of a function, and it
// must not be one that a tier was compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/packed_matrix.h"

namespace bonsai::cpu {

// Tiles that follow each other in each of some streams, before all streams go on behind the last one.
constexpr uint64_t kMostTilesOfStream = 8;

[[gnu::always_inline]] constexpr uint64_t tiles_of_stream(int streams, uint64_t tiles_left) {
  const uint64_t n = tiles_left / static_cast<uint64_t>(streams);
  return n < kMostTilesOfStream ? n : kMostTilesOfStream;
}

// Calls body(tile, how many tiles the streams are apart) for the tiles from `tile` on that are the first stream's, and
// returns the first of those, fewer than there are streams, that are left over.
template <int kStreams, class Body>
[[gnu::always_inline]] inline uint64_t each_streamed_tile(uint64_t tile, uint64_t end, const Body &body) {
  while (const uint64_t apart = tiles_of_stream(kStreams, end - tile)) {
    for (uint64_t i = 0; i < apart; ++i) body(tile + i, apart);
    tile += kStreams * apart;
  }
  return tile;
}

// A call's tiles, which stand alone; or some blocks of each.
struct StreamedTiles {
  const uint8_t *first;
  uint64_t n;
  size_t apart;     // bytes from one to the next
  uint64_t blocks;  // of each
};

// A walk through the blocks of such tiles, of kBlockBytes, as each_streamed_tile has them: those of all streams at a
// time. Addresses, not pointers: there need not be anything.
template <int kStreams, size_t kBlockBytes>
class StreamPlaces {
 public:
  // `then`: what is read behind the tiles; if that is not known, as many that follow. Tiles that are left over without
  // streams are passed by.
  [[gnu::always_inline]] StreamPlaces(const StreamedTiles &tiles, const ReadingPlace &then)
      : tiles_(tiles), tiles_left_(tiles.n) {
    const auto first = reinterpret_cast<uintptr_t>(tiles.first);
    const bool is_known = then.begin != nullptr;
    then_ = is_known ? reinterpret_cast<uintptr_t>(then.begin) : first + tiles.n * tiles.apart;
    then_apart_ =
        tiles_of_stream(kStreams, is_known ? then.tiles : tiles.n) * (is_known ? then.strip_bytes : tiles.apart);
    begin_streams(first);
  }

  // The block of a stream.
  [[gnu::always_inline]] uintptr_t block(int stream) const { return next_ + static_cast<uintptr_t>(stream) * apart_; }

  [[gnu::always_inline]] void go_on() {
    next_ += kBlockBytes;
    if (--blocks_left_ > 0) return;
    next_ += tiles_.apart - tiles_.blocks * kBlockBytes;
    blocks_left_ = tiles_.blocks;
    if (--tiles_of_stream_ == 0) begin_streams(next_ + (kStreams - 1) * apart_);
  }

 private:
  [[gnu::always_inline]] void begin_streams(uintptr_t at) {
    tiles_of_stream_ = tiles_of_stream(kStreams, tiles_left_);
    tiles_left_ -= kStreams * tiles_of_stream_;
    const bool ends = tiles_of_stream_ == 0;
    next_ = ends ? then_ : at;
    apart_ = ends ? then_apart_ : tiles_of_stream_ * tiles_.apart;
    blocks_left_ = ends ? UINT64_MAX : tiles_.blocks;
  }

  StreamedTiles tiles_;
  uint64_t tiles_left_, tiles_of_stream_ = 0, blocks_left_ = 0;
  uintptr_t next_ = 0, then_ = 0;  // of the first stream
  size_t apart_ = 0, then_apart_ = 0;
};

}  // namespace bonsai::cpu
