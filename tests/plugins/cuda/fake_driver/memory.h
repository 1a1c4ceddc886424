// The fake device's memory, and pinned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/plugins/cuda/emulator/guarded_memory.h"

namespace bonsai::fake {

// Allocations of one kind. Each ends at an inaccessible page, begins as garbage, and stays reserved when it is freed,
// so that nobody gets its address again.
class Arena {
 public:
  explicit Arena(size_t alignment) : alignment_(alignment) {}

  // Throws std::bad_alloc.
  void *allocate(size_t bytes);
  // NULL where all is well, or what is wrong: no such allocation, freed before, or written to beyond its end.
  const char *free(void *address);

  // NULL if bytes at the address are inside one live allocation, or what is wrong, as the end of a sentence.
  std::string problem_of(const void *address, size_t bytes) const;
  bool overlaps(const void *address, size_t bytes) const;

  // Whether the host and the kernels may touch it.
  void set_accessible(bool is_accessible);

  size_t allocations() const { return alive_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  using Map = std::map<uintptr_t, emulation::GuardedMemory>;
  Map::const_iterator at_or_before(const Map &map, const void *address) const;

  size_t alignment_;
  bool is_accessible_ = true;
  Map alive_, freed_;
  uint64_t bytes_ = 0;
};

}  // namespace bonsai::fake
