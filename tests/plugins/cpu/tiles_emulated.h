// simd/amx/tiles.h for machines without tile registers: the same class over ordinary memory, by the instructions'
// definitions (Intel Architecture Instruction Set Extensions Programming Reference, chapter 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr int kSumTiles = 4, kLeftTiles = 2, kRightTiles = 2;
constexpr int kDotColumns = 32;

class TileRegisters {
 public:
  explicit TileRegisters(uint32_t rows) {
    if (rows < 1 || rows > 16) throw std::invalid_argument("a tile register has 1 to 16 rows");
    rows_ = rows;
    registers_ = {};
  }
  ~TileRegisters() { rows_ = 0; }
  TileRegisters(const TileRegisters &) = delete;
  TileRegisters &operator=(const TileRegisters &) = delete;

  template <int kTile>
  static void load_left(const int8_t *from, size_t stride) {
    for (uint32_t row = 0; row < rows_; ++row) {
      std::memcpy(registers_.left[kTile][row], from + row * stride, kDotColumns);
    }
  }
  template <int kTile>
  static void load_right(const int8_t *from) {
    std::memcpy(registers_.right[kTile], from, sizeof registers_.right[kTile]);
  }

  template <int kSums, int kLeft, int kRight>
  static void multiply() {
    for (uint32_t row = 0; row < rows_; ++row) {
      for (int lane = 0; lane < 16; ++lane) {
        int32_t sum = 0;
        for (int column = 0; column < kDotColumns; ++column) {
          sum += registers_.left[kLeft][row][column] * registers_.right[kRight][column / 4][lane][column % 4];
        }
        registers_.sums[kSums][row][lane] = sum;
      }
    }
  }

  template <int kSums>
  static void store(int32_t *to) {
    std::memcpy(to, registers_.sums[kSums], rows_ * sizeof registers_.sums[kSums][0]);
  }

 private:
  struct Registers {
    int32_t sums[kSumTiles][16][16];
    int8_t left[kLeftTiles][16][kDotColumns];
    int8_t right[kRightTiles][kDotColumns / 4][16][4];
  };
  static thread_local inline uint32_t rows_ = 0;  // of the configuration; 0: there is none
  static thread_local inline Registers registers_ = {};
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
