// How fast this machine streams memory: the limit that decoding is measured against.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/result.h"

namespace bonsai::bench {

struct StreamSpeed {
  double bytes_per_second = 0;
  uint64_t bytes = 0;  // that each pass read
  int threads = 0;
};

// Reads `bytes` (rounded up to whole pages for each thread) once from end to end, `passes` times, with `threads`
// threads, each its own piece that it wrote before; the fastest pass counts. Precondition: all three are at least 1.
// Error: the memory cannot be had.
Result<StreamSpeed> measure_stream(int threads, uint64_t bytes, int passes = 5);

// The last-level caches of all processors together, each counted once: those that list the same processors are one. 0
// where the system does not say.
uint64_t last_level_cache_bytes();

// Memory that no cache can help with: 1 GiB, or four times all last-level caches together if that is more.
uint64_t stream_bytes();

// Bytes that a process could allocate now without swapping, within its control group; nullopt where the system does not
// say.
std::optional<uint64_t> available_memory_bytes();

}  // namespace bonsai::bench
