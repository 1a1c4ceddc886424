#include "tests/plugins/cuda/emulator/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/quant/format.h"
#include "tests/plugins/cuda/emulator/machine.h"

namespace bonsai::emulation {
namespace {

constexpr size_t kCopyBytes = 16;

void read(AsyncCopy &copy) {
  if (copy.valid) {
    std::memcpy(copy.read, copy.global, kCopyBytes);
  } else {
    std::memset(copy.read, 0, kCopyBytes);
  }
  copy.is_read = true;
}

void deliver(AsyncCopy &copy) {
  if (!copy.is_read) read(copy);
  std::memcpy(copy.shared, copy.read, kCopyBytes);
}

// Where the operands of an mma are is all that its lanes say.
void meet_for_mma(Collective::Kind kind, void *c, const uint32_t *a, const uint32_t *b, const Where &where) {
  Mma operands{c, a, b};
  machine().meet({kind, where, &operands});
}

}  // namespace

constinit Position position = {};

void *dynamic_shared() { return machine().dynamic_shared(); }

void sync_block(const Where &where) { machine().meet({Collective::Kind::kSyncBlock, where}); }

void sync_warp(const Where &where) { machine().meet({Collective::Kind::kSyncWarp, where}); }

void wait_for_kernels_ahead(const Where &where) { machine().meet({Collective::Kind::kWaitForKernels, where}); }

uint32_t shuffle(uint32_t value, unsigned from, const Where &where) {
  Shuffle operands{value, from, 0};
  machine().meet({Collective::Kind::kShuffle, where, &operands});
  return operands.result;
}

uint32_t shuffle_xor(uint32_t value, unsigned mask, const Where &where) {
  if (mask >= kLanes) machine().fault(fmt::format("shuffle_xor with mask {}, expected less than {}", mask, kLanes));
  return shuffle(value, position.thread % kLanes ^ mask, where);
}

unsigned ballot(bool predicate, const Where &where) {
  Ballot operands{predicate, 0};
  machine().meet({Collective::Kind::kBallot, where, &operands});
  return operands.result;
}

void require_aligned(const void *address, size_t bytes, const char *what) {
  const size_t off = reinterpret_cast<uintptr_t>(address) % bytes;
  if (off != 0) machine().fault(fmt::format("{}: the address is {} beyond a multiple of {}", what, off, bytes));
}

void copy_async(void *shared, const void *global, bool valid) {
  require_aligned(shared, kCopyBytes, "copy_async to shared memory");
  if (valid) require_aligned(global, kCopyBytes, "copy_async from global memory");
  if (!machine().in_shared_memory(shared, kCopyBytes)) {
    machine().fault("copy_async: the destination is not in the block's shared memory");
  }
  if (valid && machine().in_shared_memory(global, kCopyBytes)) {
    machine().fault("copy_async: the source is in shared memory, expected global memory");
  }
  Lane &lane = machine().running_lane();
  AsyncCopy copy{shared, global, valid, lane.groups};
  const CopyMoments moments = machine().copy_moments();
  if (moments.reads_at_once) read(copy);
  if (moments.writes_at_once) return deliver(copy);
  lane.copies.push_back(copy);
}

void copy_async_commit() { ++machine().running_lane().groups; }

void copy_async_wait(unsigned most_under_way) {
  Lane &lane = machine().running_lane();
  const auto still_allowed = std::find_if(lane.copies.begin(), lane.copies.end(), [&](const AsyncCopy &copy) {
    return copy.group + most_under_way >= lane.groups;
  });
  std::for_each(lane.copies.begin(), still_allowed, deliver);
  lane.copies.erase(lane.copies.begin(), still_allowed);
}

float half_to_float(uint16_t half) { return quant::half_to_float(half); }

uint16_t float_to_half(float value) { return std::isnan(value) ? 0x7FFF : quant::float_to_half(value); }

int float_to_int(float value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p31f) return INT32_MAX;
  if (value <= -0x1p31f) return INT32_MIN;
  return static_cast<int>(std::nearbyint(value));
}

// Numbers too small to be normal are taken and given as zero.
float exp2_fast(float x) {
  constexpr float kLeastNormal = 0x1p-126f;
  const float y = std::exp2(x);
  return y < kLeastNormal ? 0.0f : y;
}

void mma_s8_k32(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Where &where) {
  meet_for_mma(Collective::Kind::kMmaS8K32, c, a, b, where);
}

void mma_s8_k16(int (&c)[4], const uint32_t (&a)[2], uint32_t b, const Where &where) {
  meet_for_mma(Collective::Kind::kMmaS8K16, c, a, &b, where);
}

void mma_f16_k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Where &where) {
  meet_for_mma(Collective::Kind::kMmaF16K16, c, a, b, where);
}

void mma_b1_k128(int (&c)[4], const uint32_t (&a)[2], uint32_t b, const Where &where) {
  meet_for_mma(Collective::Kind::kMmaB1K128, c, a, &b, where);
}

}  // namespace bonsai::emulation
