// Tile registers (Intel AMX: Architecture Instruction Set Extensions Programming Reference, chapter 3): eight of up to
// 16 rows of 64 bytes, and products of matrices of int8 with 32-bit sums. In assembler, as GCC 12's intrinsics do not
// tell the compiler which memory they read and write, so that it moves other accesses across them.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What the registers hold, while this is alive, on this thread. The left factor: (rows, kDotColumns) bytes. The right
// one: (kDotColumns / 4, 16) words, each of four consecutive columns. The sums: (rows, 16) of 32 bits.
constexpr int kSumTiles = 4, kLeftTiles = 2, kRightTiles = 2;
constexpr int kDotColumns = 32;

// LDTILECFG's operand. Of nothing but zeros, it releases the registers.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Another library on this thread may have configured the registers once for all: it finds its configuration again.
class TileRegisters {
 public:
  explicit TileRegisters(uint32_t rows) {
    asm volatile("sttilecfg %0" : "=m"(before_));
    TileConfiguration configuration;
    for (int i = 0; i < kSumTiles; ++i) set(configuration, i, rows, 64);
    for (int i = 0; i < kLeftTiles; ++i) set(configuration, kSumTiles + i, rows, kDotColumns);
    for (int i = 0; i < kRightTiles; ++i) set(configuration, kSumTiles + kLeftTiles + i, kDotColumns / 4, 64);
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  ~TileRegisters() { asm volatile("ldtilecfg %0" : : "m"(before_)); }
  TileRegisters(const TileRegisters &) = delete;
  TileRegisters &operator=(const TileRegisters &) = delete;

  // Rows lie `stride` bytes apart.
  template <int kTile>
  [[gnu::always_inline]] static void load_left(const int8_t *from, size_t stride) {
    load<kSumTiles + kTile>(from, stride);
  }
  template <int kTile>
  [[gnu::always_inline]] static void load_right(const int8_t *from) {
    load<kSumTiles + kLeftTiles + kTile>(from, 64);
  }

  // sums = left x right.
  template <int kSums, int kLeft, int kRight>
  [[gnu::always_inline]] static void multiply() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kSums));
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSums), "i"(kSumTiles + kLeft), "i"(kSumTiles + kLeftTiles + kRight));
  }

  template <int kSums>
  [[gnu::always_inline]] static void store(int32_t *to) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kSums), "r"(to), "r"(size_t{64}) : "memory");
  }

 private:
  TileConfiguration before_;

  static void set(TileConfiguration &configuration, int tile, uint32_t rows, uint16_t row_bytes) {
    configuration.rows[tile] = static_cast<uint8_t>(rows);
    configuration.row_bytes[tile] = row_bytes;
  }

  template <int kTile>
  [[gnu::always_inline]] static void load(const int8_t *from, size_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
