// Weights on their way to the device: packed by all cores into pinned memory, piece by piece, while the piece before is
// under way.
#pragma once

#include <tbb/task_arena.h>

#include <cstddef>
#include <vector>

#include "plugins/cuda/driver/memory.h"
#include "plugins/cuda/driver/stream.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {

class Uploader {
 public:
  // Both outlive it.
  Uploader(const Context &context, const Stream &stream);

  // Packs a matrix and copies it to `to` (packed_bytes() on the device) on the stream. The source has been read on
  // return. `matrix` names no tiles and no packed memory. The context is current.
  void upload(PackArguments matrix, std::byte *to);

  // Gives the pinned memory back; the next upload takes it again. The context is current.
  void release();

 private:
  struct Slot {
    PinnedBuffer memory;
    Event sent;  // when the device has it
  };
  Slot &take_slot(size_t bytes);
  void pack(const PackArguments &matrix, uint64_t first, uint64_t last, std::byte *packed);

  const Context &context_;
  const Stream &stream_;
  tbb::task_arena arena_;  // packs
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace bonsai::cuda
