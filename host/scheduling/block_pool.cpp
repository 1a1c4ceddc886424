#include "host/scheduling/block_pool.h"

#include <cassert>
#include <numeric>

namespace bonsai::host {

BlockPool::BlockPool(uint32_t n_blocks) : users_(n_blocks, 0), free_(n_blocks) {
  std::iota(free_.rbegin(), free_.rend(), 0u);
}

uint32_t BlockPool::take() {
  assert(!free_.empty());
  const uint32_t block = free_.back();
  free_.pop_back();
  users_[block] = 1;
  return block;
}

void BlockPool::share(uint32_t block) {
  assert(users_[block] > 0);
  if (++users_[block] == 2) ++n_shared_;
}

void BlockPool::release(uint32_t block) {
  assert(users_[block] > 0);
  if (--users_[block] == 1) --n_shared_;
  if (users_[block] == 0) free_.push_back(block);
}

}  // namespace bonsai::host
