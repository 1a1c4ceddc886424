// Kernels for the emulator's own tests: right ones, one for each thing that the vocabulary can do.
#include "example_arguments.h"
#include "simt.cuh"

namespace bonsai::cuda {

// out[i] = in[i] + i for i < n; one thread each.
BONSAI_KERNEL(add_index, ExampleArguments, 256, 2) {
  const unsigned i = block_x() * block_threads() + thread();
  if (i < arguments.n) arguments.out[i] = arguments.in[i] + i;
}

// out[...]: where each thread is, five numbers of it.
BONSAI_KERNEL(position, ExampleArguments, 256, 1) {
  const unsigned block = block_x() + grid_x() * block_y();
  uint32_t *out = arguments.out + 5 * (block * block_threads() + thread());
  out[0] = lane();
  out[1] = warp();
  out[2] = block_x();
  out[3] = block_y();
  out[4] = grid_x();
}

// out[i] = the sum of the block's in, for every thread of the block.
BONSAI_KERNEL(block_sum, ExampleArguments, 256, 1) {
  BONSAI_SHARED uint32_t sums[8];
  uint32_t sum = arguments.in[thread()];
  for (unsigned mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (lane() == 0) sums[warp()] = sum;
  sync_block();
  uint32_t total = 0;
  for (unsigned i = 0; i < block_threads() / kWarp; ++i) total += sums[i];
  arguments.out[thread()] = total;
}

// out[i] = in of the lane that in of this lane names, then of the lane n above.
BONSAI_KERNEL(shuffles, ExampleArguments, 32, 1) {
  const uint32_t value = arguments.in[lane()];
  arguments.out[lane()] = shuffle(value, value);
  arguments.out[32 + lane()] = shuffle(value, lane() + arguments.n);
  arguments.out[64 + lane()] = shuffle_xor(value, arguments.n);
}

// out[warp] = the lanes whose in is odd.
BONSAI_KERNEL(ballots, ExampleArguments, 256, 1) {
  const unsigned odd = ballot(arguments.in[thread()] % 2 == 1);
  if (lane() == 0) arguments.out[warp()] = odd;
}

// out[0] counts the threads of all blocks; out[1 + i]: the turn of thread i.
BONSAI_KERNEL(count, ExampleArguments, 256, 1) {
  arguments.out[1 + block_x() * block_threads() + thread()] = atomic_add(arguments.out, 1);
}

// out = in reversed, 4 numbers at a time, by way of dynamic shared memory and two groups of copies; the thread beyond n
// copies zeros.
BONSAI_KERNEL(reverse_quads, ExampleArguments, 64, 1) {
  Quad *quads = dynamic_shared<Quad>();
  const unsigned half = block_threads();
  copy_async(quads + thread(), arguments.in + 4 * thread(), thread() < arguments.n);
  copy_async_commit();
  copy_async(quads + half + thread(), arguments.in + 4 * (half + thread()), half + thread() < arguments.n);
  copy_async_commit();
  copy_async_wait<1>();
  sync_block();
  const unsigned mirrored = block_threads() - 1 - thread();
  Quad *out = reinterpret_cast<Quad *>(arguments.out);
  out[thread()] = quads[mirrored];
  copy_async_wait<0>();
  sync_block();
  out[half + thread()] = quads[half + mirrored];
}

// out[i] = in[i] converted: half to float, float to half, float to int, 2^x, root, and divided by in[0].
BONSAI_KERNEL(numbers, ExampleArguments, 256, 1) {
  const uint32_t bits = arguments.in[thread()];
  uint32_t *out = arguments.out + 6 * thread();
  const float x = bits_to_float(bits);
  out[0] = float_to_bits(half_to_float(static_cast<uint16_t>(bits >> 16)));
  out[1] = float_to_half(x);
  out[2] = static_cast<uint32_t>(float_to_int(x));
  out[3] = float_to_bits(exp2_fast(x));
  out[4] = float_to_bits(square_root(x));
  out[5] = float_to_bits(divide(x, bits_to_float(arguments.in[0])));
}

// out = 4 words of in per thread.
BONSAI_KERNEL(stream, ExampleArguments, 32, 1) {
  reinterpret_cast<Quad *>(arguments.out)[thread()] = load_streaming(arguments.in + 4 * thread() + arguments.n);
}

// A lane's 32 bits of a matrix with rows of `row_words` words: row (g or g + 8), word 4 i + t.
__device__ inline uint32_t fragment(const void *matrix, unsigned row_words, unsigned row, unsigned i) {
  return static_cast<const uint32_t *>(matrix)[(lane() / 4 + row) * row_words + 4 * i + lane() % 4];
}

template <class T>
__device__ inline T *element(void *c, unsigned i) {
  return static_cast<T *>(c) + (lane() / 4 + i / 2 * 8) * 8 + lane() % 4 * 2 + i % 2;
}

template <class T>
__device__ inline void load_sums(T (&c)[4], const MatrixArguments &arguments) {
  for (unsigned i = 0; i < 4; ++i) c[i] = *element<T>(arguments.c, i);
}

template <class T>
__device__ inline void store_sums(const T (&c)[4], const MatrixArguments &arguments) {
  for (unsigned i = 0; i < 4; ++i) *element<T>(arguments.c, i) = c[i];
}

// a's and b's fragments of 8 words a row: mma_s8_k32, and mma_f16_k16, whose rows are as long.
struct LongFragments {
  uint32_t a[4], b[2];
};
__device__ inline LongFragments load_long(const MatrixArguments &arguments) {
  LongFragments fragments;
  for (unsigned i = 0; i < 2; ++i) {
    fragments.a[2 * i] = fragment(arguments.a, 8, 0, i);
    fragments.a[2 * i + 1] = fragment(arguments.a, 8, 8, i);
    fragments.b[i] = fragment(arguments.b, 8, 0, i);
  }
  return fragments;
}

BONSAI_KERNEL(multiply_s8_k32, MatrixArguments, 32, 1) {
  int c[4];
  load_sums(c, arguments);
  const LongFragments fragments = load_long(arguments);
  mma_s8_k32(c, fragments.a, fragments.b);
  store_sums(c, arguments);
}

BONSAI_KERNEL(multiply_f16_k16, MatrixArguments, 32, 1) {
  float c[4];
  load_sums(c, arguments);
  const LongFragments fragments = load_long(arguments);
  mma_f16_k16(c, fragments.a, fragments.b);
  store_sums(c, arguments);
}

BONSAI_KERNEL(multiply_s8_k16, MatrixArguments, 32, 1) {
  int c[4];
  load_sums(c, arguments);
  const uint32_t a[2] = {fragment(arguments.a, 4, 0, 0), fragment(arguments.a, 4, 8, 0)};
  mma_s8_k16(c, a, fragment(arguments.b, 4, 0, 0));
  store_sums(c, arguments);
}

BONSAI_KERNEL(multiply_b1_k128, MatrixArguments, 32, 1) {
  int c[4];
  load_sums(c, arguments);
  if (kHasBitMma) {
    const uint32_t a[2] = {fragment(arguments.a, 4, 0, 0), fragment(arguments.a, 4, 8, 0)};
    mma_b1_k128(c, a, fragment(arguments.b, 4, 0, 0));
  }
  store_sums(c, arguments);
}

}  // namespace bonsai::cuda
