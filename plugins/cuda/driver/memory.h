// Memory on the device, and pinned memory of the host that the device reads and writes while the processor goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugins/cuda/driver/context.h"

namespace bonsai::cuda {

// What the two kinds share. Movable; no bytes: a null pointer.
class Memory {
 public:
  size_t bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }
  void *data() const { return memory_.get(); }
  template <class T>
  T *as(size_t byte_offset = 0) const {
    return reinterpret_cast<T *>(static_cast<std::byte *>(data()) + byte_offset);
  }

 protected:
  enum class Kind { kDevice, kPinned };
  struct Release {
    const Context *context;
    Kind kind;
    size_t bytes;
    uint64_t *account;
    void operator()(void *memory) const noexcept;
  };

  Memory() = default;
  // Takes over memory that has just been allocated, and counts it.
  Memory(void *memory, const Release &release);

 private:
  std::unique_ptr<void, Release> memory_;
};

// Device memory, aligned to 256 bytes; its contents are undefined. Addresses are for kernels' arguments and Stream's
// copies, never to be followed here.
class DeviceBuffer : public Memory {
 public:
  DeviceBuffer() = default;
  // `purpose` is for messages: "KV blocks". `account`, if given, counts the bytes for as long as the buffer lives.
  // Throws BONSAI_OUT_OF_MEMORY with what was asked for and what is free. The context need not be current.
  DeviceBuffer(const Context &context, size_t bytes, const char *purpose, uint64_t *account = nullptr);
};

// What the processor does with pinned memory.
enum class Pinned {
  kReadWrite,  // kernels may have its address, too, and write there
  kWriteOnly,  // write-combined: faster to fill and to send, very slow to read; kernels know it by another address
};

// Pinned host memory, page-aligned; its contents are undefined.
class PinnedBuffer : public Memory {
 public:
  PinnedBuffer() = default;
  // As DeviceBuffer.
  PinnedBuffer(const Context &context, size_t bytes, const char *purpose, Pinned use = Pinned::kReadWrite,
               uint64_t *account = nullptr);
};

}  // namespace bonsai::cuda
