#include "plugins/cpu/slabs.h"

#include "plugins/common/memory.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

constexpr uint64_t kSlab = uint64_t{64} << 20;

}  // namespace

// What takes more than half of a slab gets its own, and so does all where there is no memory for another slab.
std::shared_ptr<std::byte> Slabs::allocate(uint64_t bytes) {
  const uint64_t wanted = round_up(bytes, kCacheLine);
  if (wanted > kSlab / 2) return allocate_memory(wanted, "weights");
  std::shared_ptr<std::byte> slab = current_.lock();
  if (!slab || kSlab - used_ < wanted) {
    slab = try_allocate_memory(kSlab);
    if (!slab) return allocate_memory(wanted, "weights");
    current_ = slab;
    used_ = 0;
  }
  std::byte *part = slab.get() + used_;
  used_ += wanted;
  return {std::move(slab), part};
}

}  // namespace bonsai::cpu
