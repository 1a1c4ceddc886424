#include "plugins/common/memory.h"

#include <sys/mman.h>

#include "plugins/common/failure.h"

namespace bonsai::plugin {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 62;  // what no machine has, and can still be rounded up

}  // namespace

Memory try_allocate_memory(uint64_t bytes) {
  const bool huge = bytes >= 2 * kHugePage;
  const uint64_t alignment = huge ? kHugePage : kCacheLine;
  void *memory = bytes < kMostBytes ? std::aligned_alloc(alignment, round_up(bytes, alignment)) : nullptr;
  if (memory && huge)
    madvise(memory, round_up(bytes, kHugePage), MADV_HUGEPAGE);  // may be refused: then pages are small
  return Memory(static_cast<std::byte *>(memory));
}

Memory allocate_memory(uint64_t bytes, const char *purpose) {
  Memory memory = try_allocate_memory(bytes);
  if (!memory) {
    throw Failure(BONSAI_OUT_OF_MEMORY, fmt::format("host memory: {} bytes for {} are not to be had", bytes, purpose));
  }
  return memory;
}

}  // namespace bonsai::plugin
