// Memory that the kernels work on, and where it lies while they do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace bonsai::kernel_bench {

enum class Place {
  kCache,   // a few hundred KiB, which the core's own cache holds
  kMemory,  // a working set that no cache holds, gone round
};
inline constexpr Place kPlaces[] = {Place::kCache, Place::kMemory};
const char *name_of(Place place);  // "cache", "memory"

// Zeros from the system, in large pages where it has them: like the memory that streaming is measured in.
class Memory {
 public:
  explicit Memory(uint64_t bytes);  // throws std::runtime_error if they cannot be had
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  ~Memory();

  std::byte *data() const { return bytes_.data(); }
  uint64_t size() const { return bytes_.size(); }
  template <class T>
  T *as() const {
    return reinterpret_cast<T *>(bytes_.data());
  }

 private:
  std::span<std::byte> bytes_;
};

// Goes round n pieces of a working set.
class Round {
 public:
  explicit Round(uint64_t n) : n_(n) {}
  uint64_t next() {
    const uint64_t i = i_;
    i_ = i + 1 == n_ ? 0 : i + 1;
    return i;
  }

 private:
  uint64_t n_, i_ = 0;
};

// How many pieces of so many bytes the working set of a place has: one in cache.
uint64_t pieces(Place place, uint64_t bytes_of_piece, uint64_t memory_bytes);

// n floats, uniform in [-1, 1).
void fill_random(float *values, uint64_t n, uint64_t seed);

}  // namespace bonsai::kernel_bench
