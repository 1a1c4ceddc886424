#include "tests/plugins/cuda/selection/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t count = 0;

}  // namespace

void *operator new(size_t bytes) {
  ++count;
  if (void *memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace bonsai::cuda {

uint64_t allocations() { return count; }

}  // namespace bonsai::cuda
