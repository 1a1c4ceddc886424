// Tile registers (Intel AMX: Architecture Instruction Set Extensions Programming Reference, chapter 3): eight of up to
// 16 rows of 64 bytes, and products of matrices of int8 with 32-bit sums. In assembler, as GCC 12's intrinsics do not
// tell the compiler which memory they read and write, so that it moves other accesses across them.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What the registers hold, while this is alive, on this thread. The left factor: (rows, columns) bytes. The right one:
// (columns / 4, 16) words, each of four consecutive columns, signed. The sums: (rows, 16) of 32 bits.
constexpr int kSumTiles = 4, kLeftTiles = 2, kRightTiles = 2;

// Of the left factor's bytes.
enum class LeftBytes { kSigned, kUnsigned };

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
  // 16 rows and 64 columns at most.
  TileRegisters(uint32_t rows, uint32_t columns) {
    asm volatile("sttilecfg %0" : "=m"(before_));
    TileConfiguration configuration;
    for (int i = 0; i < kSumTiles; ++i) set(configuration, i, rows, 64);
    for (int i = 0; i < kLeftTiles; ++i) set(configuration, kSumTiles + i, rows, columns);
    for (int i = 0; i < kRightTiles; ++i) set(configuration, kSumTiles + kLeftTiles + i, columns / 4, 64);
    asm volatile("ldtilecfg %0" : : "m"(configuration));
  }
  ~TileRegisters() { asm volatile("ldtilecfg %0" : : "m"(before_)); }
  TileRegisters(const TileRegisters &) = delete;
  TileRegisters &operator=(const TileRegisters &) = delete;

  // Rows lie `stride` bytes apart.
  template <int kTile>
  [[gnu::always_inline]] static void load_left(const void *from, size_t stride) {
    load<kSumTiles + kTile>(from, stride);
  }
  template <int kTile>
  [[gnu::always_inline]] static void load_right(const void *from) {
    load<kSumTiles + kLeftTiles + kTile>(from, 64);
  }

  template <int kSums>
  [[gnu::always_inline]] static void clear() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kSums));
  }

  // sums += left x right.
  template <int kSums, int kLeft, int kRight, LeftBytes kBytes = LeftBytes::kSigned>
  [[gnu::always_inline]] static void add_product() {
    constexpr int kLeftTile = kSumTiles + kLeft, kRightTile = kSumTiles + kLeftTiles + kRight;
    if constexpr (kBytes == LeftBytes::kSigned) {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeftTile), "i"(kRightTile));
    } else {
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeftTile), "i"(kRightTile));
    }
  }

  template <int kSums>
  [[gnu::always_inline]] static void store(int32_t *to) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kSums), "r"(to), "r"(size_t{64}) : "memory");
  }

 private:
  TileConfiguration before_;

  static void set(TileConfiguration &configuration, int tile, uint32_t rows, uint32_t row_bytes) {
    configuration.rows[tile] = static_cast<uint8_t>(rows);
    configuration.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  }

  template <int kTile>
  [[gnu::always_inline]] static void load(const void *from, size_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
