// Memory that kernels work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace bonsai::plugin {

constexpr size_t kCacheLine = 64;

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

struct FreeMemory {
  void operator()(std::byte *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

// `bytes` on a cache line's boundary, uninitialised. From some megabytes on they lie in huge pages where the system has
// them: hardware prefetchers stop at the end of a page, and a stream through small pages waits for the TLB. Throws
// BONSAI_OUT_OF_MEMORY; `purpose` says in the message what the memory was for.
Memory allocate_memory(uint64_t bytes, const char *purpose);
// The same; NULL instead of an exception.
Memory try_allocate_memory(uint64_t bytes);

}  // namespace bonsai::plugin
