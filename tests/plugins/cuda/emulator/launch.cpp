#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "tests/plugins/cuda/emulator/device.h"
#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/emulator/fault_report.h"
#include "tests/plugins/cuda/emulator/machine.h"

namespace bonsai::emulation {
namespace {

constexpr unsigned kMostGridYZ = 65'535;

// Static objects fill it before main.
std::vector<Kernel> &registry() {
  static std::vector<Kernel> the_kernels;
  return the_kernels;
}

[[noreturn]] void refuse(const Kernel &kernel, const std::string &why) {
  throw Failure(fmt::format("{}: {}: {}", kernel.unit, kernel.name, why));
}

// What the driver would refuse, and blocks that are not whole warps, which no collective allows.
void check(const Kernel &kernel, const Grid &grid, unsigned block_threads, size_t shared_bytes) {
  const unsigned most_threads = std::min(kernel.most_threads, kMostBlockThreads);
  if (block_threads == 0 || block_threads > most_threads) {
    refuse(kernel, fmt::format("launched with blocks of {} threads, expected 1 to {}", block_threads, most_threads));
  }
  if (block_threads % kLanes != 0) {
    refuse(kernel, fmt::format("launched with blocks of {} threads, expected a multiple of {}", block_threads, kLanes));
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > kMostGridYZ || grid.z > kMostGridYZ) {
    refuse(kernel, fmt::format("launched with a grid of ({}, {}, {}), expected 1 to ({}, {}, {})", grid.x, grid.y,
                               grid.z, INT32_MAX, kMostGridYZ, kMostGridYZ));
  }
  const size_t fixed = kernel.static_shared.size();
  if (shared_bytes + fixed > kMostSharedBytes) {
    refuse(kernel,
           fmt::format("launched with {} bytes of shared memory beside {} of its unit's own, expected {} at the most",
                       shared_bytes, fixed, kMostSharedBytes));
  }
}

}  // namespace

Registration::Registration(const char *unit, const char *name, size_t arguments_bytes, unsigned most_threads,
                           unsigned fewest_blocks, std::span<std::byte> static_shared, void (*entry)(const void *)) {
  registry().push_back({unit, name, arguments_bytes, most_threads, fewest_blocks, static_shared, entry});
}

std::span<const Kernel> kernels() { return registry(); }

const Kernel *find_kernel(const std::string &unit, const std::string &name) {
  const auto found = std::find_if(registry().begin(), registry().end(),
                                  [&](const Kernel &kernel) { return kernel.unit == unit && kernel.name == name; });
  return found == registry().end() ? nullptr : &*found;
}

void launch(const Kernel &kernel, const Order &order, const Grid &grid, unsigned block_threads, size_t shared_bytes,
            const void *arguments) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  check(kernel, grid, block_threads, shared_bytes);
  const FaultReport report(kernel);
  machine().run({kernel, order, grid, block_threads, shared_bytes, arguments});
}

void launch(const Call &call, const Grid &grid, unsigned block_threads, size_t shared_bytes, const void *arguments,
            size_t arguments_bytes) {
  const Kernel *kernel = find_kernel(call.unit, call.kernel);
  if (!kernel) throw Failure(fmt::format("no kernel {} of unit {} is linked here", call.kernel, call.unit));
  if (arguments_bytes != kernel->arguments_bytes) {
    refuse(*kernel,
           fmt::format("launched with arguments of {} bytes, expected {}", arguments_bytes, kernel->arguments_bytes));
  }
  launch(*kernel, call.order, grid, block_threads, shared_bytes, arguments);
}

}  // namespace bonsai::emulation
