#include "plugins/cuda/driver/stream.h"

namespace bonsai::cuda {
namespace {

CUdeviceptr address(const void *device) { return reinterpret_cast<CUdeviceptr>(device); }

}  // namespace

Stream::Stream(const Context &context) : stream_(context) {
  const Driver &driver = context.driver();
  driver.check(driver.cuStreamCreateWithPriority(stream_.out(), CU_STREAM_NON_BLOCKING, 0),
               "cuStreamCreateWithPriority");
}

void Stream::upload(void *device, const void *host, size_t bytes) const {
  if (bytes == 0) return;
  const Driver &driver = stream_.driver();
  driver.check(driver.cuMemcpyHtoDAsync_v2(address(device), host, bytes, handle()), "cuMemcpyHtoDAsync_v2");
}

void Stream::download(void *host, const void *device, size_t bytes) const {
  if (bytes == 0) return;
  const Driver &driver = stream_.driver();
  driver.check(driver.cuMemcpyDtoHAsync_v2(host, address(device), bytes, handle()), "cuMemcpyDtoHAsync_v2");
}

void Stream::copy(void *to, const void *from, size_t bytes) const {
  if (bytes == 0) return;
  const Driver &driver = stream_.driver();
  driver.check(driver.cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, handle()), "cuMemcpyDtoDAsync_v2");
}

void Stream::fill(void *device, uint8_t value, size_t bytes) const {
  if (bytes == 0) return;
  const Driver &driver = stream_.driver();
  driver.check(driver.cuMemsetD8Async(address(device), value, bytes, handle()), "cuMemsetD8Async");
}

void Stream::synchronize() const {
  stream_.driver().check(stream_.driver().cuStreamSynchronize(handle()), "cuStreamSynchronize");
}

Event::Event(const Context &context, Timing timing, Waiting waiting) : event_(context) {
  unsigned flags = timing == Timing::kOn ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  if (waiting == Waiting::kAsleep) flags |= CU_EVENT_BLOCKING_SYNC;
  context.driver().check(context.driver().cuEventCreate(event_.out(), flags), "cuEventCreate");
}

void Event::record(const Stream &stream) const {
  event_.driver().check(event_.driver().cuEventRecord(handle(), stream.handle()), "cuEventRecord");
}

void Event::synchronize() const {
  event_.driver().check(event_.driver().cuEventSynchronize(handle()), "cuEventSynchronize");
}

double Event::seconds_since(const Event &earlier) const {
  float milliseconds = 0;
  const Driver &driver = event_.driver();
  driver.check(driver.cuEventElapsedTime_v1(&milliseconds, earlier.handle(), handle()), "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

}  // namespace bonsai::cuda
