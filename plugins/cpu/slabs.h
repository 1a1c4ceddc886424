// Memory for weights, in large pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace bonsai::cpu {

// Hands out parts of slabs, so that small matrices lie in huge pages, too (memory.h). A slab lives as long as one of
// its parts.
class Slabs {
 public:
  // `bytes` on a cache line's boundary, uninitialised. Throws BONSAI_OUT_OF_MEMORY.
  std::shared_ptr<std::byte> allocate(uint64_t bytes);

 private:
  std::weak_ptr<std::byte> current_;
  uint64_t used_ = 0;  // bytes of the current slab
};

}  // namespace bonsai::cpu
