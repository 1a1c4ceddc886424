// Which blocks of the KV cache are in use, and by how many.
#pragma once

#include <cstdint>
#include <vector>

namespace bonsai::host {

// Counts references; what lies in the blocks is the device's affair. Blocks are handed out in a fixed order, so that a
// run can be repeated.
class BlockPool {
 public:
  explicit BlockPool(uint32_t n_blocks);

  uint32_t size() const { return static_cast<uint32_t>(users_.size()); }
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t n_shared() const { return n_shared_; }  // blocks with two users or more
  uint32_t users(uint32_t block) const { return users_[block]; }

  // A free block, with one user from here on. Precondition: n_free() > 0.
  uint32_t take();
  // One user more, or less, of a block in use. A block that loses its last user is free.
  void share(uint32_t block);
  void release(uint32_t block);

 private:
  std::vector<uint32_t> users_;  // by block; 0: free
  std::vector<uint32_t> free_;   // the last is taken next
  uint32_t n_shared_ = 0;
};

}  // namespace bonsai::host
