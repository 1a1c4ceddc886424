// Streams, in which work runs in order, and events, which mark places in them. Calls need the context to be current.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "plugins/cuda/driver/handle.h"

namespace bonsai::cuda {

class Stream {
 public:
  // Does not wait for, nor hold up, the process's default stream.
  explicit Stream(const Context &context);

  const Context &context() const { return stream_.context(); }
  CUstream handle() const { return stream_.get(); }

  // Copies, and filling with a byte. `host` is read or written when the stream comes to it, if it is pinned. Pageable
  // memory has been written on return (download), and may be read until the stream has run empty (upload): that drivers
  // copy little of it at once is their habit and no promise. No bytes: nothing happens.
  void upload(void *device, const void *host, size_t bytes) const;
  void download(void *host, const void *device, size_t bytes) const;
  void copy(void *to, const void *from, size_t bytes) const;
  void fill(void *device, uint8_t value, size_t bytes) const;

  // Blocks until the stream has run empty. Throws what failed in it.
  void synchronize() const;

 private:
  Handle<CUstream, &DriverFunctions::cuStreamDestroy_v2> stream_;
};

// Runs `work`, which submits to the stream, and waits until that has run empty, also where something throws: from then
// on the memory that `work` let it read, which was not pinned, may go. Throws what failed.
template <class Work>
void run_to_end(const Stream &stream, Work &&work) {
  try {
    std::forward<Work>(work)();
    stream.synchronize();
  } catch (...) {
    stream.context().release([&](const Driver &driver) { driver.cuStreamSynchronize(stream.handle()); });
    throw;
  }
}

class Event {
 public:
  enum class Timing { kOff, kOn };
  // How synchronize() waits: as the driver is wont to, which may be spinning, or asleep.
  enum class Waiting { kAsTheDriver, kAsleep };
  explicit Event(const Context &context, Timing timing = Timing::kOff, Waiting waiting = Waiting::kAsTheDriver);

  CUevent handle() const { return event_.get(); }

  void record(const Stream &stream) const;
  // Blocks until the stream has come to the recorded place.
  void synchronize() const;
  // Both events have Timing::kOn and are reached.
  double seconds_since(const Event &earlier) const;

 private:
  Handle<CUevent, &DriverFunctions::cuEventDestroy_v2> event_;
};

}  // namespace bonsai::cuda
