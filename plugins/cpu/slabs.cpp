#include "plugins/cpu/slabs.h"

#include <sys/mman.h>

#include "plugins/cpu/buffer.h"

namespace bonsai::cpu {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kSlab = uint64_t{64} << 20;

std::shared_ptr<std::byte> map(uint64_t bytes) {
  auto *memory = static_cast<std::byte *>(std::aligned_alloc(kHugePage, bytes));
  if (!memory) {
    throw Failure(BONSAI_OUT_OF_MEMORY, fmt::format("host memory: {} bytes for weights are not to be had", bytes));
  }
  madvise(memory, bytes, MADV_HUGEPAGE);  // may be refused: then pages are small
  return {memory, [](std::byte *begin) { std::free(begin); }};
}

}  // namespace

// What takes more than half of a slab gets its own.
std::shared_ptr<std::byte> Slabs::allocate(uint64_t bytes) {
  const uint64_t wanted = round_up(bytes, kCacheLine);
  if (wanted > kSlab / 2) return map(round_up(wanted, kHugePage));
  std::shared_ptr<std::byte> slab = current_.lock();
  if (!slab || kSlab - used_ < wanted) {
    slab = map(kSlab);
    current_ = slab;
    used_ = 0;
  }
  std::byte *part = slab.get() + used_;
  used_ += wanted;
  return {std::move(slab), part};
}

}  // namespace bonsai::cpu
