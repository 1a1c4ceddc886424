// Matrices of FP8 times float activations, as kernels.h defines it. Lane = row: the bits of a code become those of a
// float that is too small by a power of two, and a block's sum is scaled once for all its columns, so that little more
// than one fma is left for 16 weights. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/streams_ahead.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A format: the mantissa bits of a code.
template <int kBits>
struct F8Codes {
  static constexpr int kMantissaBits = kBits;
  static constexpr int kTooSmall = 127 - ((1 << (6 - kBits)) - 1);  // by how many powers of two: the biases' difference
  static constexpr size_t kWords = kF8Layout.words();
  static constexpr size_t kScalesBytes = kTileRows * kF8Layout.scale_bytes();
  static constexpr size_t kBlockStride = TilePlace::block_stride(kF8Layout);
};

constexpr uint64_t kF8Columns = kF8Layout.columns();

// 2^e, e from -126 to 127.
[[gnu::always_inline]] inline F32x16 power_of_two(int e) { return from_bits(splat_i32((127 + e) * (1 << 23))); }

// v 2^e, as kernels.h says.
[[gnu::always_inline]] inline F32x16 times_power_of_two(F32x16 v, int e) {
  return mul(mul(v, power_of_two(e >> 1)), power_of_two(e - (e >> 1)));
}

// k of a vector.
inline int exponent_to_normalize(const float *x, uint64_t columns) {
  constexpr int kWanted = 227;  // 2^100's exponent field
  I32x16 most = splat_i32(0);
  const I32x16 magnitude = splat_i32(0x7FFFFFFF);
  for (uint64_t i = 0; i < columns; i += 16) most = max(most, bit_and(bits_of(load(x + i)), magnitude));
  const int field = reduce_max(most) >> 23;
  return kWanted - (field > 0 ? field : 1);
}

// Whether weights are asked for: with fewer registers more vectors wait for the arithmetic.
constexpr bool asks_for_f8(int vectors) { return kMaxTokens >= 8 || vectors <= 4; }

// What is multiplied at once: T vectors, of which a piece of whole blocks stays in the first-level cache, and tiles, so
// many that copying the vectors takes little beside.
template <int T>
struct F8Piece {
  static constexpr uint64_t kValues = 4096, kColumns = kValues / T / kF8Columns * kF8Columns;
  static constexpr uint64_t kStride = kColumns + 16;  // no multiple of 4 KiB: the vectors do not share a cache's sets
  static constexpr uint64_t kTiles = T == 1 ? 128 : asks_for_f8(T) ? 64 : 32;

  int exponents[T];
  uint64_t first_column, columns;
  alignas(kPackedAlignment) float x[T * kStride];
  alignas(kPackedAlignment) float sums[kTiles * T * kTileRows];  // (kTiles, T, 16)

  void begin(const MatmulArgs &args, uint32_t token, uint64_t tiles) {
    for (int t = 0; t < T; ++t) {
      exponents[t] = exponent_to_normalize(args.x + (token + t) * args.x_stride, args.matrix->columns);
    }
    memset(sums, 0, tiles * T * kTileRows * sizeof *sums);
  }

  void take(const MatmulArgs &args, uint32_t token, uint64_t column) {
    first_column = column;
    columns = std::min(kColumns, args.matrix->columns - column);
    for (int t = 0; t < T; ++t) {
      const float *from = args.x + (token + t) * args.x_stride + column;
      for (uint64_t i = 0; i < columns; i += 16) {
        store(x + t * kStride + i, times_power_of_two(load(from + i), exponents[t]));
      }
    }
  }
};

// Tiles that are multiplied side by side: a single vector's products with a row follow each other, and those with other
// rows fill the time that a fma takes. 16 rows are one register (AVX-512), two or four. Several tiles share what is
// loaded of the vectors; of four vectors more tiles, and of eight more than one, were no faster or slower.
constexpr int f8_tiles(int vectors) {
  if (kMaxTokens < 8) return vectors > 1 ? 1 : kLaneParts;
  return vectors <= 3 ? 4 : vectors == 4 ? 2 : 1;
}

// N tiles, each from the same block on.
struct F8Tiles {
  const uint8_t *begin;  // of the first one
  size_t stride;         // bytes from tile to tile
  size_t read;           // bytes before the block
  uint64_t apart;        // tiles from one to the next
  WeightStream stream;

  // The block of tile n.
  const uint8_t *block(int n) const { return begin + n * stride + read; }
};

// Asks for what is read some time after the bytes [read, read + bytes) of N tiles one behind the other: behind their
// ends that is the next N tiles, if a piece has all columns, and their next columns otherwise, which come later.
template <class Work, int N>
[[gnu::always_inline]] inline void prefetch_f8(const F8Tiles &tiles, size_t read, size_t bytes) {
  const auto skip = [&](size_t ahead) { return N > 1 && read + ahead >= tiles.stride ? (N - 1) * tiles.stride : 0; };
  const uint8_t *far = tiles.begin + read + skip(kFarAhead<Work>);
  const uint8_t *near = tiles.begin + read + skip(kNearAhead<Work>);
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    prefetch_both<Work>(far + i * tiles.stride, near + i * tiles.stride, bytes, tiles.stream);
  }
}

// Adds the products of a block's rows in P parts of the lanes to `sums`, (tiles, T, 16). x: the block's columns.
template <class Work, int kPart, int P, int T, int N>
[[gnu::always_inline]] inline void multiply_f8_rows(const F8Tiles &tiles, const float *x, float *sums) {
  constexpr int kLanes = 16 / kLaneParts, kFirst = kPart * kLanes;
  constexpr int kWords = Work::kWords;
  constexpr size_t kWordStride = kTileRows * 4;
  Lanes of_block[N][P][T];
  for (auto &tile : of_block) {
    for (auto &part : tile) {
      for (Lanes &lanes : part) lanes = splat_lanes(0.0f);
    }
  }
#pragma GCC unroll 8
  for (int word = 0; word < kWords; ++word) {
    if constexpr (kPart == 0 && asks_for_f8(T) && !kIsSideBySide<Work>) {
      constexpr size_t kLast = Work::kBlockStride - (kWords - 1) * kWordStride;
      prefetch_f8<Work, N>(tiles, tiles.read + word * kWordStride, word + 1 < kWords ? kWordStride : kLast);
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
#pragma GCC unroll 2
      for (int p = 0; p < P; ++p) {
        Lanes codes[4];
        const uint8_t *words = tiles.block(n) + Work::kScalesBytes + word * kWordStride;
        load_f8<Work::kMantissaBits>(words + (kFirst + p * kLanes) * 4, codes);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 8
          for (int t = 0; t < T; ++t) {
            of_block[n][p][t] =
                fma(codes[i], splat_lanes(x[t * F8Piece<T>::kStride + 4 * word + i]), of_block[n][p][t]);
          }
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) {
      const int first = kFirst + p * kLanes;
      const Lanes scale = load_lanes_f16(reinterpret_cast<const uint16_t *>(tiles.block(n)) + first);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        float *sum = sums + (n * tiles.apart * T + t) * kTileRows + first;
        store_lanes(sum, fma(of_block[n][p][t], scale, load_lanes(sum)));
      }
    }
  }
}

// `ask` is called for each block.
template <class Work, int T, int N, class Ask>
void multiply_f8_tiles(F8Tiles tiles, const F8Piece<T> &piece, float *sums, const Ask &ask) {
#pragma GCC unroll 1
  for (uint64_t column = 0; column < piece.columns; column += kF8Columns) {
    ask();
    if constexpr (T <= 2 || kLaneParts == 1) {  // few sums: all parts at once, which hides the time that a fma takes
      multiply_f8_rows<Work, 0, kLaneParts, T, N>(tiles, piece.x + column, sums);
    } else {
      multiply_f8_rows<Work, 0, 1, T, N>(tiles, piece.x + column, sums);
      multiply_f8_rows<Work, 1, 1, T, N>(tiles, piece.x + column, sums);
    }
    tiles.read += Work::kBlockStride;
  }
}

// Tiles [first, last), as many as a piece has at most, times T vectors.
template <class Work, int T>
class F8Block {
 public:
  F8Block(const MatmulArgs &args, uint64_t first, uint64_t last, uint32_t token)
      : args_(args),
        first_(first),
        last_(last),
        token_(token),
        columns_(args.matrix->columns),
        data_(reinterpret_cast<const uint8_t *>(args.matrix->data)),
        tile_bytes_(TilePlace::strip_bytes(kF8Layout, columns_ / kF8Columns)),
        stream_(args, kF8Layout) {
    piece_.begin(args, token, last - first);
  }

  void multiply() {
    for (uint64_t column = 0; column < columns_; column += piece_.kColumns) {
      piece_.take(args_, token_, column);
      multiply_piece();
    }
    for (uint64_t tile = first_; tile < last_; ++tile) {
      for (int t = 0; t < T; ++t) {
        const F32x16 sum = load(sums_of(tile) + t * kTileRows);
        const F32x16 y = times_power_of_two(sum, Work::kTooSmall - piece_.exponents[t]);
        store_tile(args_, token_ + t, tile, canonical_nan(y));
      }
    }
  }

 private:
  static constexpr int kTiles = f8_tiles(T);

  float *sums_of(uint64_t tile) { return piece_.sums + (tile - first_) * T * kTileRows; }
  size_t place_of(uint64_t tile, uint64_t column) const {
    return tile * tile_bytes_ + column / kF8Columns * Work::kBlockStride;
  }

  void multiply_piece() {
    uint64_t tile = first_;
    const auto nothing = [] {};
    if constexpr (kIsSideBySide<Work>) {
      const StreamedTiles all = {data_ + place_of(first_, piece_.first_column), last_ - first_, tile_bytes_,
                                 piece_.columns / kF8Columns};
      StreamsAhead<Work, kTiles> ahead(all, what_is_read_then());
      const auto ask = [&ahead]() __attribute__((always_inline)) {
        ahead.ask();
        ahead.go_on();
      };
      tile = each_streamed_tile<kTiles>(
          tile, last_, [&](uint64_t of_first, uint64_t apart) { multiply<Work, kTiles>(of_first, apart, ask); });
    } else {
      for (; tile + kTiles <= last_; tile += kTiles) multiply<Work, kTiles>(tile, 1, nothing);
    }
    using WithoutStreams = std::conditional_t<kIsSideBySide<Work>, Asking<Work, Prefetch::kFirstLevel>, Work>;
    for (; tile < last_; ++tile) multiply<WithoutStreams, 1>(tile, 1, nothing);
  }

  template <class How, int N, class Ask>
  void multiply(uint64_t tile, uint64_t apart, const Ask &ask) {
    const F8Tiles tiles = {.begin = data_ + tile * tile_bytes_,
                           .stride = apart * tile_bytes_,
                           .read = piece_.first_column / kF8Columns * Work::kBlockStride,
                           .apart = apart,
                           .stream = stream_};
    multiply_f8_tiles<How, T, N>(tiles, piece_, sums_of(tile), ask);
  }

  // The same tiles' next columns, or the call's next tiles. Where these tiles come again, with other vectors, what is
  // asked for at their end is wrong, which is little.
  ReadingPlace what_is_read_then() const {
    const uint64_t next_column = piece_.first_column + piece_.columns, left = tile_count(args_.last_row) - last_;
    const std::byte *data = args_.matrix->data;
    if (next_column < columns_) return {data + place_of(first_, next_column), tile_bytes_, last_ - first_};
    if (left > 0) return {data + place_of(last_, 0), tile_bytes_, left};
    return args_.then;
  }

  const MatmulArgs &args_;
  const uint64_t first_, last_;
  const uint32_t token_;
  const uint64_t columns_;
  const uint8_t *data_;
  const size_t tile_bytes_;
  const WeightStream stream_;
  F8Piece<T> piece_;
};

template <class Work, int T>
void multiply_f8_block(const MatmulArgs &args, uint64_t first, uint64_t last, uint32_t token) {
  if constexpr (!asks_for_f8(T)) {
    F8Block<Work, T>(args, first, last, token).multiply();
  } else {
    if constexpr (kMaxTokens >= 8) {
      if (args.prefetch == Prefetch::kFirstLevel) {
        return F8Block<SideBySide<Work>, T>(args, first, last, token).multiply();
      }
    }
    with_requests<Work>(args.prefetch,
                        [&](auto asking) { F8Block<decltype(asking), T>(args, first, last, token).multiply(); });
  }
}

// Vectors from `token` on: T at a time, then 4 of what is left, and 3, 2 or 1 of what is left then.
template <class Work, int T>
void multiply_f8_tokens(const MatmulArgs &args, uint32_t token) {
  const uint64_t last_tile = tile_count(args.last_row);
  const uint32_t n = (args.n - token) / T * T;
  for (uint64_t tile = args.first_row / kTileRows; n > 0 && tile < last_tile; tile += F8Piece<T>::kTiles) {
    for (uint32_t i = token; i < token + n; i += T) {
      multiply_f8_block<Work, T>(args, tile, std::min(tile + F8Piece<T>::kTiles, last_tile), i);
    }
  }
  if constexpr (T > 1) {
    if (token + n < args.n) multiply_f8_tokens<Work, (T > 4 ? T / 2 : T - 1)>(args, token + n);
  }
}

template <int kMantissaBits>
void multiply_f8(const MatmulArgs &args) {
  multiply_f8_tokens<F8Codes<kMantissaBits>, kMaxTokens >= 4 ? 8 : 1>(args, 0);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
