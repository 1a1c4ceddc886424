// Memory on the device, and pinned memory of the host that the device reads and writes while the processor goes on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cuda/driver/context.h"

namespace bonsai::cuda {

// Device memory, aligned to 256 bytes; its contents are undefined. No bytes: a null pointer.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // `purpose` is for messages: "KV blocks". `account`, if given, counts the bytes for as long as the buffer lives.
  // Throws BONSAI_OUT_OF_MEMORY with what was asked for and what is free. The context need not be current.
  DeviceBuffer(const Context &context, size_t bytes, const char *purpose, uint64_t *account = nullptr);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer &&other) noexcept;
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept;

  size_t bytes() const { return bytes_; }
  // A device address: for kernels' arguments and Stream's copies, never to be followed here.
  void *data() const { return data_; }
  template <class T>
  T *as(size_t byte_offset = 0) const {
    return reinterpret_cast<T *>(static_cast<std::byte *>(data_) + byte_offset);
  }

 private:
  const Context *context_ = nullptr;
  void *data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t *account_ = nullptr;
};

// What the processor does with pinned memory.
enum class Pinned {
  kReadWrite,
  kWriteOnly,  // write-combined: faster to fill and to send, very slow to read
};

// Pinned host memory, page-aligned; its contents are undefined. No bytes: a null pointer.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // As DeviceBuffer.
  PinnedBuffer(const Context &context, size_t bytes, const char *purpose, Pinned use = Pinned::kReadWrite,
               uint64_t *account = nullptr);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer &&other) noexcept;
  PinnedBuffer &operator=(PinnedBuffer &&other) noexcept;

  size_t bytes() const { return bytes_; }
  void *data() const { return data_; }
  template <class T>
  T *as(size_t byte_offset = 0) const {
    return reinterpret_cast<T *>(static_cast<std::byte *>(data_) + byte_offset);
  }

 private:
  const Context *context_ = nullptr;
  void *data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t *account_ = nullptr;
};

}  // namespace bonsai::cuda
