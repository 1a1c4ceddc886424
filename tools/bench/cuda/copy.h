// How fast a device copies its own memory: the limit that kernels are measured against.
#pragma once

#include <cstdint>

#include "plugins/cuda/device.h"

namespace bonsai::bench::cuda {

// Bytes read and bytes written, per second: the fastest of `passes` copies of `bytes` from one end of the memory to
// another. The context is current.
double measure_copy(bonsai::cuda::Device &device, uint64_t bytes, int passes);

}  // namespace bonsai::bench::cuda
