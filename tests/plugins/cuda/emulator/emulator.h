// A SIMT machine in software. It runs the CUDA plugin's kernels, compiled as C++, so that their tests need no GPU:
// every thread of a block is a fiber, and what the threads of a warp or a block do together (barriers, shuffles, tensor
// cores) happens when all of them have come to it.
//
// What CUDA leaves undefined is a Failure here, or differs from one order to another: a test runs a kernel under every
// order of kOrders and demands the same bytes.
//
//   BONSAI_KERNEL in reduce.cu, listed in CMake as bonsai_emulated_kernels(reduce_test reduce.cu), runs by
//   emulation::launch({.unit = "reduce.cu", .kernel = "add_rows"}, {.x = 4}, 256, 0, &arguments);
//
// One block runs at a time, in the thread that launches; global memory is the process's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace bonsai::emulation {

// In which order lanes, warps and blocks take their turns between barriers, when asynchronous copies happen, and what
// shared memory holds before it is written.
struct Order {
  enum class Kind {
    kForward,   // lanes, warps and blocks from the first; asynchronous copies as late as is allowed
    kBackward,  // from the last; asynchronous copies at once
    kRandom,    // by `seed`; asynchronous copies also read at once, and write late
  };
  Kind kind = Kind::kForward;
  uint64_t seed = 0;
};

inline constexpr std::array<Order, 4> kOrders = {
    {{Order::Kind::kForward}, {Order::Kind::kBackward}, {Order::Kind::kRandom, 1}, {Order::Kind::kRandom, 2}}};

struct Call {
  std::string unit;  // the .cu file's name, and where it is compiled per weight format: "matmul.cu BONSAI_FORMAT=Q4_0"
  std::string kernel;
  Order order = {};
};

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// A kernel broke a rule. The message names kernel, block and warp, and what was expected.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a multiprocessor gives a block at the most (sm_80 and sm_90 have 227 KiB of shared memory at least, or less).
inline constexpr unsigned kMostBlockThreads = 1024;
inline constexpr size_t kMostSharedBytes = 227 * 1024;

// A kernel of a unit, as BONSAI_KERNEL defined it.
struct Kernel {
  std::string unit, name;
  size_t arguments_bytes;
  unsigned most_threads, fewest_blocks;
  std::span<std::byte> static_shared;  // the unit's: what BONSAI_SHARED declared
  void (*entry)(const void *arguments);
};

// All that are linked into this program or shared library.
std::span<const Kernel> kernels();

// NULL if there is none.
const Kernel *find_kernel(const std::string &unit, const std::string &name);

// Runs a kernel to its end. `arguments` points to the kernel's argument struct. Throws Failure where the launch is one
// that CUDA would refuse, or the kernel breaks a rule.
void launch(const Kernel &kernel, const Order &order, const Grid &grid, unsigned block_threads, size_t shared_bytes,
            const void *arguments);

// The same by name; throws Failure where there is no such kernel, or its argument struct has another size.
void launch(const Call &call, const Grid &grid, unsigned block_threads, size_t shared_bytes, const void *arguments,
            size_t arguments_bytes);

template <class Arguments>
void launch(const Call &call, const Grid &grid, unsigned block_threads, size_t shared_bytes,
            const Arguments *arguments) {
  launch(call, grid, block_threads, shared_bytes, arguments, sizeof(Arguments));
}

}  // namespace bonsai::emulation
