// Memory for weights, in large pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace bonsai::cpu {

// Hands out parts of slabs that are backed by huge pages where the system has them: hardware prefetchers stop at the
// end of a page, and a stream of weights through small pages waits for the TLB. A slab lives as long as one of its
// parts.
class Slabs {
 public:
  // `bytes` on a cache line's boundary, uninitialised. Throws BONSAI_OUT_OF_MEMORY.
  std::shared_ptr<std::byte> allocate(uint64_t bytes);

 private:
  std::weak_ptr<std::byte> current_;
  uint64_t used_ = 0;  // bytes of the current slab
};

}  // namespace bonsai::cpu
