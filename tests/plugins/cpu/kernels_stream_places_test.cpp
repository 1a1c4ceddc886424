// The order in which blocks of tiles in streams are read, and where reading goes on behind them.
#include <gtest/gtest.h>

#include <vector>

#include "plugins/cpu/kernels/stream_places.h"

namespace bonsai::cpu {
namespace {

constexpr int kStreams = 4;
constexpr size_t kBlockBytes = 288, kTileBytes = 3 * kBlockBytes + 32, kNextTileBytes = 5000;
constexpr uint64_t kBlocks = 3;
constexpr uintptr_t kFirst = 1 << 20, kNext = 1 << 24;

const uint8_t *pointer_to(uintptr_t address) { return reinterpret_cast<const uint8_t *>(address); }

ReadingPlace then_are(uint64_t tiles) {
  return {reinterpret_cast<const std::byte *>(pointer_to(kNext)), kNextTileBytes, tiles};
}

// Blocks in the order of a kernel that multiplies each_streamed_tile: all streams' at a time, one after the other.
std::vector<uintptr_t> blocks_of(uint64_t tiles) {
  std::vector<uintptr_t> all;
  each_streamed_tile<kStreams>(0, tiles, [&](uint64_t tile, uint64_t apart) {
    for (uint64_t block = 0; block < kBlocks; ++block) {
      for (uint64_t i = 0; i < kStreams; ++i) {
        all.push_back(kFirst + (tile + i * apart) * kTileBytes + block * kBlockBytes);
      }
    }
  });
  return all;
}

TEST(StreamPlaces, AreThoseThatAreRead) {
  for (const uint64_t tiles : {0, 1, 3, 4, 7, 8, 31, 32, 35, 36, 75}) {
    StreamPlaces<kStreams, kBlockBytes> places({pointer_to(kFirst), tiles, kTileBytes, kBlocks}, then_are(40));
    const std::vector<uintptr_t> wanted = blocks_of(tiles);
    EXPECT_EQ(wanted.size(), tiles / kStreams * kStreams * kBlocks) << tiles;
    for (size_t i = 0; i < wanted.size(); i += kStreams, places.go_on()) {
      for (int stream = 0; stream < kStreams; ++stream) {
        ASSERT_EQ(places.block(stream), wanted[i + stream]) << tiles << " tiles, block " << i / kStreams;
      }
    }
    EXPECT_EQ(places.block(0), kNext) << tiles;
  }
}

TEST(StreamPlaces, AreEachTileOfTheFirstStreamOnce) {
  std::vector<bool> read(75);
  const uint64_t left = each_streamed_tile<kStreams>(2, 75, [&](uint64_t tile, uint64_t apart) {
    EXPECT_LE(apart, kMostTilesOfStream);
    for (uint64_t i = 0; i < kStreams; ++i) {
      EXPECT_FALSE(read.at(tile + i * apart)) << tile;
      read.at(tile + i * apart) = true;
    }
  });
  EXPECT_EQ(left, 74u);
  for (uint64_t tile = 0; tile < 75; ++tile) EXPECT_EQ(read[tile], tile >= 2 && tile < left) << tile;
}

TEST(StreamPlaces, AreApartAsWhatIsReadNextHasTiles) {
  for (const auto &[tiles, apart] : {std::pair<uint64_t, uint64_t>{3, 0}, {4, 1}, {17, 4}, {UINT64_MAX, 8}}) {
    StreamPlaces<kStreams, kBlockBytes> places({pointer_to(kFirst), 0, kTileBytes, kBlocks}, then_are(tiles));
    for (uint64_t block = 0; block < 9; ++block, places.go_on()) {
      EXPECT_EQ(places.block(0), kNext + block * kBlockBytes);
      EXPECT_EQ(places.block(3), kNext + block * kBlockBytes + 3 * apart * kNextTileBytes) << tiles;
    }
  }
}

TEST(StreamPlaces, AreAsManyTilesBehindWhereNothingIsKnown) {
  StreamPlaces<kStreams, kBlockBytes> places({pointer_to(kFirst), 9, kTileBytes, 1}, {});
  places.go_on();
  places.go_on();
  EXPECT_EQ(places.block(1), kFirst + 9 * kTileBytes + 2 * kTileBytes);
}

// Some columns of each tile.
TEST(StreamPlaces, PassByBlocksThatAreNotRead) {
  StreamPlaces<2, kBlockBytes> places({pointer_to(kFirst), 4, kTileBytes, 2}, then_are(4));
  std::vector<uintptr_t> all;
  for (int i = 0; i < 4; ++i, places.go_on()) all.push_back(places.block(1));
  EXPECT_EQ(all, (std::vector<uintptr_t>{kFirst + 2 * kTileBytes, kFirst + 2 * kTileBytes + kBlockBytes,
                                         kFirst + 3 * kTileBytes, kFirst + 3 * kTileBytes + kBlockBytes}));
  EXPECT_EQ(places.block(0), kNext);
}

}  // namespace
}  // namespace bonsai::cpu
