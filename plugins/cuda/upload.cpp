#include "plugins/cuda/upload.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>

#include "core/base/available_cores.h"
#include "core/base/floating_point_environment.h"
#include "core/base/runnable_threads.h"

namespace bonsai::cuda {
namespace {

constexpr size_t kSlots = 2;
constexpr size_t kSlotBytes = size_t{32} << 20;
constexpr size_t kPackGrain = 4;  // tiles that are worth handing to another thread

}  // namespace

Uploader::Uploader(const Context &context, const Stream &stream)
    : context_(context), stream_(stream), arena_(runnable_threads(available_cores())) {}

// Packs tiles [first, last) of a matrix on all cores.
void Uploader::pack(const PackArguments &matrix, uint64_t first, uint64_t last, std::byte *packed) {
  const size_t bytes = tile_bytes(matrix.format, matrix.columns);
  const auto pack_range = [&](const tbb::blocked_range<uint64_t> &range) {
    const DefaultFloatingPoint environment;  // threads of oneTBB's have what their arena was made with
    PackArguments part = matrix;
    part.first_tile = range.begin();
    part.last_tile = range.end();
    part.packed = packed + (range.begin() - first) * bytes;
    pack_tiles(part);
  };
  arena_.execute([&] { tbb::parallel_for(tbb::blocked_range<uint64_t>(first, last, kPackGrain), pack_range); });
}

void Uploader::upload(PackArguments matrix, std::byte *to) {
  const size_t bytes = tile_bytes(matrix.format, matrix.columns);
  const uint64_t tiles = tile_count(matrix.rows), piece = std::max<uint64_t>(1, kSlotBytes / bytes);
  for (uint64_t first = 0; first < tiles; first += piece) {
    const uint64_t last = std::min(tiles, first + piece);
    Slot &slot = take_slot((last - first) * bytes);
    pack(matrix, first, last, slot.memory.as<std::byte>());
    stream_.upload(to + first * bytes, slot.memory.data(), (last - first) * bytes);
    slot.sent.record(stream_);
  }
}

// The slot that was used longest ago, once the device has what is in it.
Uploader::Slot &Uploader::take_slot(size_t bytes) {
  if (slots_.size() < kSlots) {
    slots_.push_back({PinnedBuffer(context_, std::max(bytes, kSlotBytes), "weights under way"), Event(context_)});
    return slots_.back();
  }
  Slot &slot = slots_[next_++ % kSlots];
  slot.sent.synchronize();
  if (slot.memory.bytes() < bytes) slot.memory = PinnedBuffer(context_, bytes, "weights under way");
  return slot;
}

void Uploader::release() {
  for (const Slot &slot : slots_) slot.sent.synchronize();
  slots_.clear();
  next_ = 0;
}

}  // namespace bonsai::cuda
