// Types that host and device both know. NVRTC has no standard headers: the fixed-width names are made here for it.
#pragma once

#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using size_t = decltype(sizeof 0);
#else
#include <cstddef>
#include <cstdint>
#endif

namespace bonsai::cuda {

// 16 bytes: what one lane loads at a time.
struct alignas(16) Quad {
  uint32_t x, y, z, w;
};

}  // namespace bonsai::cuda
