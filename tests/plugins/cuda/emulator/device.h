// What simt_emulated.h calls: the machine as a running kernel sees it. Every function that takes a Where stands for
// what all lanes of a warp, or all threads of a block, do together; they have to do it at the same place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>

namespace bonsai::emulation {

using Where = std::source_location;

struct Position {
  unsigned thread, block_threads;
  unsigned block_x, block_y, block_z;
  unsigned grid_x;
};

// Of the thread that runs now.
extern Position position;

void *dynamic_shared();

void sync_block(const Where &where);
void sync_warp(const Where &where);
// Nothing is ahead; but other warps may get their turns here, as between any two instructions of the hardware's.
void wait_for_kernels_ahead(const Where &where);
uint32_t shuffle(uint32_t value, unsigned from, const Where &where);
uint32_t shuffle_xor(uint32_t value, unsigned mask, const Where &where);
unsigned ballot(bool predicate, const Where &where);

// Fails unless `address` is a multiple of `bytes`, as the hardware does.
void require_aligned(const void *address, size_t bytes, const char *what);

void copy_async(void *shared, const void *global, bool valid);
void copy_async_commit();
void copy_async_wait(unsigned most_under_way);

float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
int float_to_int(float value);
float exp2_fast(float x);

void mma_s8_k32(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Where &where);
void mma_s8_k16(int (&c)[4], const uint32_t (&a)[2], uint32_t b, const Where &where);
void mma_f16_k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const Where &where);
void mma_b1_k128(int (&c)[4], const uint32_t (&a)[2], uint32_t b, const Where &where);

// BONSAI_KERNEL makes one for each kernel.
struct Registration {
  Registration(const char *unit, const char *name, size_t arguments_bytes, unsigned most_threads,
               unsigned fewest_blocks, std::span<std::byte> static_shared, void (*entry)(const void *));
};

}  // namespace bonsai::emulation
