// The second meaning of plugins/cuda/kernels/simt.cuh, on the emulator: the same names for a kernel that is compiled as
// C++. emulated_unit.cpp includes it, by way of the kernel's file, inside an unnamed namespace.
#pragma once

// What CUDA knows and C++ does not.
#define __device__
#define __forceinline__ inline
#define __CUDA_ARCH__ BONSAI_EMULATED_ARCHITECTURE

#define BONSAI_KERNEL(name, Arguments, max_threads, min_blocks)                                                 \
  static void name(const Arguments &arguments);                                                                 \
  static const ::bonsai::emulation::Registration bonsai_registration_of_##name(                                 \
      BONSAI_EMULATED_UNIT, #name, sizeof(Arguments), max_threads, min_blocks, bonsai_emulated_static_shared(), \
      [](const void *emulated) { name(*static_cast<const Arguments *>(emulated)); });                           \
  static void name([[maybe_unused]] const Arguments &arguments)

// Kernels run one after the other: none starts early.
#define BONSAI_EARLY_KERNEL BONSAI_KERNEL

// One block runs at a time, so the block's shared memory can be the unit's. A section of its own tells where it is.
#define BONSAI_SHARED static __attribute__((section(BONSAI_EMULATED_SHARED_SECTION)))

namespace bonsai::cuda {

using Where = ::bonsai::emulation::Where;

inline constexpr unsigned kWarp = 32;

inline unsigned thread() { return ::bonsai::emulation::position.thread; }
inline unsigned lane() { return thread() % kWarp; }
inline unsigned warp() { return thread() / kWarp; }
inline unsigned block_threads() { return ::bonsai::emulation::position.block_threads; }
inline unsigned block_x() { return ::bonsai::emulation::position.block_x; }
inline unsigned block_y() { return ::bonsai::emulation::position.block_y; }
inline unsigned grid_x() { return ::bonsai::emulation::position.grid_x; }

template <class T>
inline T *dynamic_shared() {
  return static_cast<T *>(::bonsai::emulation::dynamic_shared());
}

inline void sync_block(const Where &where = Where::current()) { ::bonsai::emulation::sync_block(where); }
inline void sync_warp(const Where &where = Where::current()) { ::bonsai::emulation::sync_warp(where); }

template <class T>
inline T shuffle(T value, unsigned from, const Where &where = Where::current()) {
  return __builtin_bit_cast(T, ::bonsai::emulation::shuffle(__builtin_bit_cast(uint32_t, value), from, where));
}
template <class T>
inline T shuffle_xor(T value, unsigned mask, const Where &where = Where::current()) {
  return __builtin_bit_cast(T, ::bonsai::emulation::shuffle_xor(__builtin_bit_cast(uint32_t, value), mask, where));
}
inline unsigned ballot(bool predicate, const Where &where = Where::current()) {
  return ::bonsai::emulation::ballot(predicate, where);
}

inline unsigned atomic_add(unsigned *counter, unsigned value) {
  const unsigned was = *counter;
  *counter += value;
  return was;
}

inline Quad load_streaming(const void *from) {
  ::bonsai::emulation::require_aligned(from, sizeof(Quad), "load_streaming");
  return *static_cast<const Quad *>(from);
}

inline constexpr bool kStartsEarly = __CUDA_ARCH__ >= 900;
inline void wait_for_kernels_ahead(const Where &where = Where::current()) {
  ::bonsai::emulation::wait_for_kernels_ahead(where);
}

inline uint32_t zero_after(uint32_t) { return 0; }

inline constexpr unsigned kCacheLine = 128;
inline void prefetch(const void *) {}  // changes nothing that a program can see
inline void prefetch_together(const void *from, unsigned bytes, const Where &where = Where::current()) {
  sync_warp(where);
  ::bonsai::emulation::require_aligned(from, 16, "prefetch_together");
  ::bonsai::emulation::require_aligned(reinterpret_cast<const void *>(uintptr_t{bytes}), 16,
                                       "prefetch_together's size");
}

inline constexpr bool kHasAsyncCopies = true;
inline void copy_async(void *shared, const void *global, bool valid) {
  ::bonsai::emulation::copy_async(shared, global, valid);
}
inline void copy_async_commit() { ::bonsai::emulation::copy_async_commit(); }
template <int n>
inline void copy_async_wait() {
  ::bonsai::emulation::copy_async_wait(n);
}

inline float half_to_float(uint16_t half) { return ::bonsai::emulation::half_to_float(half); }
inline uint16_t float_to_half(float value) { return ::bonsai::emulation::float_to_half(value); }
inline uint32_t floats_to_halves(float first, float second) {
  return float_to_half(first) | static_cast<uint32_t>(float_to_half(second)) << 16;
}
// A float holds the sum of two halves all but exactly, and rounding it twice is rounding it once.
inline uint32_t add_halves(uint32_t a, uint32_t b) {
  const auto low = [](uint32_t halves) { return half_to_float(static_cast<uint16_t>(halves)); };
  return floats_to_halves(low(a) + low(b), low(a >> 16) + low(b >> 16));
}
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = a | uint64_t{b} << 32;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t which = selector >> 4 * i & 7;
    result |= static_cast<uint32_t>(bytes >> 8 * which & 0xFF) << 8 * i;
  }
  return result;
}
inline float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t float_to_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
inline int float_to_int(float value) { return ::bonsai::emulation::float_to_int(value); }

inline float exp2_fast(float x) { return ::bonsai::emulation::exp2_fast(x); }
inline float square_root(float x) { return __builtin_sqrtf(x); }
inline float divide(float a, float b) { return a / b; }

inline void mma_s8_k32(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                       const Where &where = Where::current()) {
  ::bonsai::emulation::mma_s8_k32(c, a, b, where);
}
inline void mma_s8_k16(int (&c)[4], const uint32_t (&a)[2], uint32_t b, const Where &where = Where::current()) {
  ::bonsai::emulation::mma_s8_k16(c, a, b, where);
}
inline void mma_f16_k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        const Where &where = Where::current()) {
  ::bonsai::emulation::mma_f16_k16(c, a, b, where);
}
inline unsigned largest_of_warp(unsigned value) {
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) value = std::max(value, shuffle_xor(value, mask));
  return value;
}
inline int sum_of_warp(int value) {
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

inline constexpr bool kHasBitMma = __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000;
inline void mma_b1_k128(int (&c)[4], const uint32_t (&a)[2], uint32_t b, const Where &where = Where::current()) {
  ::bonsai::emulation::mma_b1_k128(c, a, b, where);
}

}  // namespace bonsai::cuda
