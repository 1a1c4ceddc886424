// Arrays that kernels work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plugins/common/memory.h"

namespace bonsai::plugin {

// Uninitialised elements in whole cache lines.
template <class T>
class Buffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Buffer() = default;
  // Throws BONSAI_OUT_OF_MEMORY; `purpose` says in the message what the memory was for.
  Buffer(uint64_t size, const char *purpose) : size_(size) {
    if (size > 0) memory_ = allocate_memory(bytes(size), purpose);
  }

  // What a buffer of `size` elements occupies.
  static constexpr uint64_t bytes(uint64_t size) { return round_up(size * sizeof(T), kCacheLine); }

  T *data() const { return reinterpret_cast<T *>(memory_.get()); }
  T &operator[](size_t i) const { return data()[i]; }
  uint64_t size() const { return size_; }
  uint64_t bytes() const { return bytes(size_); }

 private:
  Memory memory_;
  uint64_t size_ = 0;
};

}  // namespace bonsai::plugin
