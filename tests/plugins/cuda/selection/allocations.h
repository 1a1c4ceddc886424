// How often this program's thread has called operator new.
#pragma once

#include <cstdint>

namespace bonsai::cuda {

uint64_t allocations();

}  // namespace bonsai::cuda
