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

enum class LeftBytes { kSigned, kUnsigned };

class TileRegisters {
 public:
  TileRegisters(uint32_t rows, uint32_t columns) {
    if (rows < 1 || rows > 16) throw std::invalid_argument("a tile register has 1 to 16 rows");
    if (columns < 4 || columns > 64 || columns % 4 != 0) throw std::invalid_argument("4 to 64 columns, in fours");
    rows_ = rows;
    columns_ = columns;
    registers_ = {};
  }
  ~TileRegisters() { rows_ = 0; }
  TileRegisters(const TileRegisters &) = delete;
  TileRegisters &operator=(const TileRegisters &) = delete;

  template <int kTile>
  static void load_left(const void *from, size_t stride) {
    for (uint32_t row = 0; row < rows_; ++row) {
      std::memcpy(registers_.left[kTile][row], static_cast<const std::byte *>(from) + row * stride, columns_);
    }
  }
  template <int kTile>
  static void load_right(const void *from) {
    std::memcpy(registers_.right[kTile], from, columns_ * 16);
  }

  template <int kSums>
  static void clear() {
    std::memset(registers_.sums[kSums], 0, sizeof registers_.sums[kSums]);
  }

  template <int kSums, int kLeft, int kRight, LeftBytes kBytes = LeftBytes::kSigned>
  static void add_product() {
    for (uint32_t row = 0; row < rows_; ++row) {
      for (int lane = 0; lane < 16; ++lane) {
        int32_t &sum = registers_.sums[kSums][row][lane];
        for (uint32_t column = 0; column < columns_; ++column) {
          const int8_t byte = registers_.left[kLeft][row][column];
          const int left = kBytes == LeftBytes::kSigned ? byte : static_cast<uint8_t>(byte);
          sum += left * registers_.right[kRight][column / 4][lane][column % 4];
        }
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
    int8_t left[kLeftTiles][16][64];
    int8_t right[kRightTiles][16][16][4];
  };
  static thread_local inline uint32_t rows_ = 0, columns_ = 0;  // of the configuration; 0: there is none
  static thread_local inline Registers registers_ = {};
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
