#include "tools/bench/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "tools/synth/random_weights.h"

namespace bonsai::kernel_bench {

const char *name_of(Place place) { return place == Place::kCache ? "cache" : "memory"; }

Memory::Memory(uint64_t bytes) {
  void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error(
        fmt::format("cannot map {} bytes to work on: {}", bytes, std::generic_category().message(errno)));
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // only a hint
  bytes_ = {static_cast<std::byte *>(memory), bytes};
}

Memory::~Memory() { ::munmap(bytes_.data(), bytes_.size()); }

uint64_t pieces(Place place, uint64_t bytes_of_piece, uint64_t memory_bytes) {
  return place == Place::kCache ? 1 : (memory_bytes + bytes_of_piece - 1) / bytes_of_piece;
}

void fill_random(float *values, uint64_t n, uint64_t seed) {
  synth::Random random(seed);
  for (uint64_t i = 0; i < n; ++i) values[i] = random.symmetric();
}

}  // namespace bonsai::kernel_bench
