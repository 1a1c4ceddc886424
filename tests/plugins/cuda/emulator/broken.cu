// Kernels that break one rule each: what the emulator must find.
#include "example_arguments.h"
#include "simt.cuh"

namespace bonsai::cuda {

// Half of warp 1 does not take part.
BONSAI_KERNEL(half_a_warp, ExampleArguments, 64, 1) {
  if (warp() == 0 || lane() < 16) arguments.out[thread()] = shuffle(lane(), 0);
}

// Lane 3 goes another way than the others.
BONSAI_KERNEL(two_ways, ExampleArguments, 32, 1) {
  if (lane() == 3) {
    sync_warp();
  } else {
    arguments.out[thread()] = ballot(true);
  }
}

// The same collective, but not at one place.
BONSAI_KERNEL(two_places, ExampleArguments, 32, 1) {
  if (lane() < 30) {
    sync_warp();
  } else {
    sync_warp();
  }
}

// Warp 1 returns before the barrier.
BONSAI_KERNEL(early_return, ExampleArguments, 96, 1) {
  if (warp() == 1) return;
  sync_block();
}

BONSAI_KERNEL(two_barriers, ExampleArguments, 64, 1) {
  if (warp() == 0) {
    sync_block();
  } else {
    sync_block();
  }
}

BONSAI_KERNEL(endless, ExampleArguments, 32, 1) {
  while (arguments.n == 0) sync_warp();
}

BONSAI_KERNEL(wide_mask, ExampleArguments, 32, 1) { arguments.out[lane()] = shuffle_xor(lane(), 32u); }

// The address is off by four bytes.
BONSAI_KERNEL(misaligned_load, ExampleArguments, 32, 1) {
  reinterpret_cast<Quad *>(arguments.out)[lane()] = load_streaming(arguments.in + 4 * lane() + 1);
}

BONSAI_KERNEL(misaligned_copy, ExampleArguments, 32, 1) {
  copy_async(dynamic_shared<uint32_t>() + 4 * lane() + 2, arguments.in + 4 * lane(), true);
}

BONSAI_KERNEL(copy_to_global, ExampleArguments, 32, 1) {
  copy_async(arguments.out + 4 * lane(), arguments.in + 4 * lane(), true);
}

BONSAI_KERNEL(copy_from_shared, ExampleArguments, 32, 1) {
  Quad *quads = dynamic_shared<Quad>();
  copy_async(quads + lane(), quads + 32 + lane(), true);
}

// Writes 4 bytes beyond its dynamic shared memory.
BONSAI_KERNEL(overflow, ExampleArguments, 32, 1) { dynamic_shared<volatile uint32_t>()[arguments.n] = 1; }

// No barrier between the writes of one warp and the reads of the next.
BONSAI_KERNEL(no_barrier, ExampleArguments, 64, 1) {
  BONSAI_SHARED uint32_t values[64];
  values[thread()] = thread();
  sync_warp();
  arguments.out[thread()] = values[(thread() + 32) % 64];
}

// No barrier between the writes of one lane and the reads of the next.
BONSAI_KERNEL(no_warp_barrier, ExampleArguments, 32, 1) {
  BONSAI_SHARED uint32_t values[32];
  values[lane()] = lane();
  arguments.out[lane()] = values[(lane() + 1) % 32];
}

// Nobody writes the second half.
BONSAI_KERNEL(uninitialised, ExampleArguments, 32, 1) {
  BONSAI_SHARED uint32_t values[64];
  values[lane()] = lane();
  sync_block();
  arguments.out[lane()] = values[lane() * 2];
}

// Reads what it copies without waiting.
BONSAI_KERNEL(no_wait, ExampleArguments, 32, 1) {
  Quad *quads = dynamic_shared<Quad>();
  copy_async(quads + lane(), arguments.in + 4 * lane(), true);
  copy_async_commit();
  reinterpret_cast<Quad *>(arguments.out)[lane()] = quads[lane()];
}

// Copies over what it still reads.
BONSAI_KERNEL(copy_too_early, ExampleArguments, 32, 1) {
  Quad *quads = dynamic_shared<Quad>();
  quads[lane()] = {1, 2, 3, 4};
  copy_async(quads + lane(), arguments.in + 4 * lane(), true);
  copy_async_commit();
  const Quad read = quads[lane()];
  copy_async_wait<0>();
  reinterpret_cast<Quad *>(arguments.out)[lane()] = read;
}

// Warps of the latter half store to both ends of what those of the former copy, without a barrier between these warps'
// waiting and the storing. Each has eight places.
BONSAI_KERNEL(store_beside_a_copy, ExampleArguments, 512, 1) {
  const uint32_t i = warp() % 8 * 8 + lane() % 8;
  Quad *quads = dynamic_shared<Quad>(), *out = reinterpret_cast<Quad *>(arguments.out);
  if (warp() < 8) {
    copy_async(quads + i, out + i, true);
    copy_async_commit();
  }
  wait_for_kernels_ahead();
  copy_async_wait<0>();
  if (warp() >= 8) quads[i] = out[i] = {1, 2, 3, 4};
  sync_block();
  if (warp() < 8) out[i] = quads[i];
}

// Blocks that each count on the one before.
BONSAI_KERNEL(ordered_blocks, ExampleArguments, 32, 1) {
  if (lane() == 0) arguments.out[block_x() + 1] = arguments.out[block_x()] + 1;
}

}  // namespace bonsai::cuda
