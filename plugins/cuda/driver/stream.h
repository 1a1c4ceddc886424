// Streams, in which work runs in order, and events, which mark places in them. Calls need the context to be current.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cuda/driver/handle.h"

namespace bonsai::cuda {

class Event;

// Of so much pageable memory, an upload has read all on return.
inline constexpr size_t kReadOnReturn = 64 << 10;

class Stream {
 public:
  // Does not wait for, nor hold up, the process's default stream.
  explicit Stream(const Context &context);

  const Context &context() const { return stream_.context(); }
  CUstream handle() const { return stream_.get(); }

  // Copies, and filling with a byte. `host` is read or written when the stream comes to it, if it is pinned. Pageable
  // memory has been written on return (download); of up to kReadOnReturn it has been read on return (upload), of more
  // it may be read until the stream has run empty. No bytes: nothing happens.
  void upload(void *device, const void *host, size_t bytes) const;
  void download(void *host, const void *device, size_t bytes) const;
  void copy(void *to, const void *from, size_t bytes) const;
  void fill(void *device, uint8_t value, size_t bytes) const;

  // Work submitted from here on waits for the event.
  void wait(const Event &event) const;
  // Blocks until the stream has run empty. Throws what failed in it.
  void synchronize() const;
  // True if it has run empty. Throws what failed in it.
  bool is_idle() const;

 private:
  Handle<CUstream, &DriverFunctions::cuStreamDestroy_v2> stream_;
};

class Event {
 public:
  enum class Timing { kOff, kOn };
  explicit Event(const Context &context, Timing timing = Timing::kOff);

  CUevent handle() const { return event_.get(); }

  void record(const Stream &stream) const;
  // Blocks until the stream has come to the recorded place.
  void synchronize() const;
  bool is_reached() const;
  // Both events have Timing::kOn and are reached.
  double seconds_since(const Event &earlier) const;

 private:
  Handle<CUevent, &DriverFunctions::cuEventDestroy_v2> event_;
};

}  // namespace bonsai::cuda
