// Arrays that kernels work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "plugins/cpu/failure.h"

namespace bonsai::cpu {

constexpr size_t kCacheLine = 64;

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Uninitialised elements in whole cache lines.
template <class T>
class Buffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Buffer() = default;
  // Throws BONSAI_OUT_OF_MEMORY; `purpose` says in the message what the memory was for.
  Buffer(uint64_t size, const char *purpose) : size_(size) {
    const uint64_t wanted = bytes(size);
    if (wanted == 0) return;
    data_.reset(static_cast<T *>(std::aligned_alloc(kCacheLine, wanted)));
    if (!data_) {
      throw Failure(BONSAI_OUT_OF_MEMORY,
                    fmt::format("host memory: {} bytes for {} are not to be had", wanted, purpose));
    }
  }

  // What a buffer of `size` elements occupies.
  static constexpr uint64_t bytes(uint64_t size) { return round_up(size * sizeof(T), kCacheLine); }

  T *data() const { return data_.get(); }
  T &operator[](size_t i) const { return data_.get()[i]; }
  uint64_t size() const { return size_; }
  uint64_t bytes() const { return bytes(size_); }

 private:
  struct Free {
    void operator()(T *memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  uint64_t size_ = 0;
};

}  // namespace bonsai::cpu
