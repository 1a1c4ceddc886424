// The vocabulary of the kernels: everything that they use of CUDA, and nothing else. NVRTC compiles this file; where
// BONSAI_EMULATED is defined, tests/plugins/cuda/emulator gives the same names a meaning on the processor of this
// machine.
//
// A kernel takes one struct by value, its arguments, and is defined as
//
//   BONSAI_KERNEL(add_rows, AddRowsArguments, 256, 2) {
//     const unsigned i = block_x() * 256 + thread();
//     if (i < arguments.n) arguments.y[i] += arguments.x[i];
//   }
//
// with the most threads in a block and the fewest blocks that a multiprocessor is to hold (registers follow from both).
#pragma once

#include "plain_types.h"

#ifdef BONSAI_EMULATED
#include "simt_emulated.h"
#else

#define BONSAI_KERNEL(name, Arguments, max_threads, min_blocks)   \
  __device__ inline void name##_body(const Arguments &arguments); \
  BONSAI_EARLY_KERNEL(name, Arguments, max_threads, min_blocks) { \
    ::bonsai::cuda::wait_for_kernels_ahead();                     \
    name##_body(arguments);                                       \
  }                                                               \
  __device__ __forceinline__ void name##_body(const Arguments &arguments)

// A kernel that calls wait_for_kernels_ahead itself: in all its threads, before it reads what they write or writes
// anything. Until then it may do what depends on none of them, if it was launched to start early; nor on kernels
// further ahead, beside which it may run. What copies bring (plans, positions, block tables) it may read: no kernel
// passes a copy.
#define BONSAI_EARLY_KERNEL(name, Arguments, max_threads, min_blocks)   \
  extern "C" __global__ void __launch_bounds__(max_threads, min_blocks) \
      name(const __grid_constant__ Arguments arguments)

// Declares an array in the block's shared memory: BONSAI_SHARED float sums[32]; Not in a template, of which the
// emulator would not know the array.
#define BONSAI_SHARED __shared__

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 750
#endif

namespace bonsai::cuda {

inline constexpr unsigned kWarp = 32;

// Where this thread is. Blocks are one-dimensional, grids have up to three dimensions.
__device__ inline unsigned thread() { return threadIdx.x; }
__device__ inline unsigned lane() { return threadIdx.x % kWarp; }
__device__ inline unsigned warp() { return threadIdx.x / kWarp; }
__device__ inline unsigned block_threads() { return blockDim.x; }
__device__ inline unsigned block_x() { return blockIdx.x; }
__device__ inline unsigned block_y() { return blockIdx.y; }
__device__ inline unsigned grid_x() { return gridDim.x; }

// The block's dynamic shared memory, whose size the launch says. Aligned to 16 bytes.
template <class T>
__device__ inline T *dynamic_shared() {
  extern __shared__ uint4 bonsai_dynamic_shared[];
  return reinterpret_cast<T *>(bonsai_dynamic_shared);
}

// Barriers: memory written before is seen after. All threads of the block, or of the warp, take part.
__device__ inline void sync_block() { __syncthreads(); }
__device__ inline void sync_warp() { __syncwarp(); }

// Whether kernels may start early.
inline constexpr bool kStartsEarly = __CUDA_ARCH__ >= 900;

// Where a kernel was launched to start before those ahead of it in its stream have ended: lets the next one start
// likewise, and waits until all that was ahead has run and can be read. Else nothing.
__device__ inline void wait_for_kernels_ahead() {
#if __CUDA_ARCH__ >= 900  // kStartsEarly
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

// Values of other lanes. All 32 lanes take part. T has 4 bytes.
template <class T>
__device__ inline T shuffle(T value, unsigned from) {
  return __shfl_sync(0xFFFFFFFFu, value, static_cast<int>(from));
}
template <class T>
__device__ inline T shuffle_xor(T value, unsigned mask) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, static_cast<int>(mask));
}
// Bit i: lane i's predicate.
__device__ inline unsigned ballot(bool predicate) { return __ballot_sync(0xFFFFFFFFu, predicate); }

// Of all lanes' values, for all of them.
__device__ inline unsigned largest_of_warp(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xFFFFFFFFu, value);
#else
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) {
    const unsigned other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
#endif
}
__device__ inline int sum_of_warp(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xFFFFFFFFu, value);
#else
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
#endif
}

// Adds to a counter in shared or global memory and returns what it was.
__device__ inline unsigned atomic_add(unsigned *counter, unsigned value) { return atomicAdd(counter, value); }

// 16 bytes that are read once, of memory that never changes (weights): they should not drive what is read again out of
// the first-level cache.
__device__ inline Quad load_streaming(const void *from) {
  Quad quad;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
               : "l"(from));
  return quad;
}

// 0, once `value` is there: what is loaded from an address that it is added to is asked for no earlier. Only for grids
// without a third dimension, which is something that the compiler does not know.
__device__ inline uint32_t zero_after(uint32_t value) { return value * blockIdx.z; }

// Asks the second-level cache for the line that an address in global memory is in.
inline constexpr unsigned kCacheLine = 128;
__device__ inline void prefetch(const void *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// The same of `bytes`, a multiple of 16, from an address that is one, by a warp together.
__device__ inline void prefetch_together(const void *from, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  // By one lane: others' addresses would be taken one after the other.
  if (lane() == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#else
  for (unsigned at = lane() * kCacheLine; at < bytes; at += kWarp * kCacheLine)
    prefetch(static_cast<const char *>(from) + at);
#endif
}

// True where copies to shared memory go on beside what follows them.
#if __CUDA_ARCH__ >= 800
inline constexpr bool kHasAsyncCopies = true;
#else
inline constexpr bool kHasAsyncCopies = false;
#endif

// Starts copying 16 bytes from global to shared memory; zeros are written where `valid` is false. commit ends a group,
// wait<n> blocks until at most n groups are under way; a barrier must follow before other threads read.
__device__ inline void copy_async(void *shared, const void *global, bool valid) {
#if __CUDA_ARCH__ >= 800
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
#else
  *static_cast<Quad *>(shared) = valid ? *static_cast<const Quad *>(global) : Quad{0, 0, 0, 0};
#endif
}
__device__ inline void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int n>
__device__ inline void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}

// Conversions. Half-precision numbers travel as their bits.
__device__ inline float half_to_float(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
// To nearest, ties to even.
__device__ inline uint16_t float_to_half(float value) {
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
// Two halves in 32 bits, the first in the low ones.
__device__ inline uint32_t floats_to_halves(float first, float second) {
  uint32_t halves;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
#else
  halves = float_to_half(first) | static_cast<uint32_t>(float_to_half(second)) << 16;
#endif
  return halves;
}
__device__ inline uint32_t add_halves(uint32_t a, uint32_t b) {
  uint32_t sums;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sums) : "r"(a), "r"(b));
  return sums;
}
// Four of the bytes of b:a, b's the upper ones: those that the selector's lower four nibbles name, whose top bits are
// 0.
__device__ inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  return __byte_perm(a, b, selector);
}
__device__ inline float bits_to_float(uint32_t bits) { return __uint_as_float(bits); }
__device__ inline uint32_t float_to_bits(float value) { return __float_as_uint(value); }
// To nearest, ties to even.
__device__ inline int float_to_int(float value) { return __float2int_rn(value); }

// 2^x to about 2 units in the last place; 0 for -infinity.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Correctly rounded.
__device__ inline float square_root(float x) { return __fsqrt_rn(x); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }

// Tensor cores: c += a b for one warp, a (16, k) by rows, b (k, 8) by columns. With g = lane / 4 and t = lane % 4, a
// lane holds
//   c[0], c[1]: row g, columns 2t and 2t + 1;  c[2], c[3]: the same of row g + 8;
//   a[0] and a[2]: row g, a[1] and a[3]: row g + 8; a[0], a[1] and b[0]: places t W..t W + W - 1 along k with W numbers
//   in 32 bits, a[2], a[3] and b[1]: places 4 W + t W.. of it. b is column g. (PTX ISA, "Matrix fragments for mma".)
// Integers are exact. c's float sums are the hardware's. Volatile, as all lanes of a warp have to get there together:
// the compiler must not move one to where only some need its result.

// 8-bit signed integers, k = 32.
__device__ inline void mma_s8_k32(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1])
                 : "r"(a[2 * half]), "r"(b[half]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[2]), "+r"(c[3])
                 : "r"(a[2 * half + 1]), "r"(b[half]));
  }
#endif
}

// 8-bit signed integers, k = 16.
__device__ inline void mma_s8_k16(int (&c)[4], const uint32_t (&a)[2], uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
#else
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+r"(c[0]), "+r"(c[1])
               : "r"(a[0]), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+r"(c[2]), "+r"(c[3])
               : "r"(a[1]), "r"(b));
#endif
}

// Half-precision numbers with float sums, k = 16.
__device__ inline void mma_f16_k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
  }
#endif
}

// True where the device multiplies single bits: c += popcount(a & b), k = 128; a[0] is row g, a[1] row g + 8.
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000
inline constexpr bool kHasBitMma = true;
#else
inline constexpr bool kHasBitMma = false;
#endif
__device__ inline void mma_b1_k128(int (&c)[4], const uint32_t (&a)[2], uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

}  // namespace bonsai::cuda

#endif  // BONSAI_EMULATED
