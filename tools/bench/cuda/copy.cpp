#include "tools/bench/cuda/copy.h"

#include <algorithm>

namespace bonsai::bench::cuda {

using namespace bonsai::cuda;

double measure_copy(Device &device, uint64_t bytes, int passes) {
  const DeviceBuffer from(device.context(), bytes, "the copy's source"), to(device.context(), bytes, "the copy");
  const Event begin(device.context(), Event::Timing::kOn), end(device.context(), Event::Timing::kOn);
  device.stream().fill(from.data(), 0x5A, bytes);
  double fastest = 0;
  for (int i = 0; i <= passes; ++i) {  // the first is not timed
    begin.record(device.stream());
    device.stream().copy(to.data(), from.data(), bytes);
    end.record(device.stream());
    end.synchronize();
    const double seconds = end.seconds_since(begin);
    if (i > 0 && seconds > 0) fastest = std::max(fastest, 2.0 * static_cast<double>(bytes) / seconds);
  }
  return fastest;
}

}  // namespace bonsai::bench::cuda
