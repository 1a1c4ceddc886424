// The machine: runs the blocks of a launch one after another, and the threads of a block as fibers, in turns.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/plugins/cuda/emulator/collective.h"
#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/emulator/fiber.h"
#include "tests/plugins/cuda/emulator/guarded_memory.h"

namespace bonsai::emulation {

// 16 bytes on their way to shared memory.
struct AsyncCopy {
  void *shared;
  const void *global;
  bool valid;
  unsigned group;
  bool is_read = false;
  std::byte read[16] = {};
};

// When an asynchronous copy reads and writes: at once, when it is started, or when it is waited for.
struct CopyMoments {
  bool reads_at_once, writes_at_once;  // the latter only with the former
};

struct Lane {
  std::unique_ptr<Fiber> fiber;
  const Collective *waits_at = nullptr;  // on the fiber's stack; NULL once it has ended
  std::vector<AsyncCopy> copies;
  unsigned groups = 0;  // of copies, committed
};

struct Launch {
  const Kernel &kernel;
  Order order;
  Grid grid;
  unsigned block_threads;
  size_t shared_bytes;
  const void *arguments;
};

class Machine {
 public:
  // Runs all blocks; throws Failure.
  void run(const Launch &launch);

  // What follows is called from the running lane. Waits until the others have come, too.
  void meet(const Collective &collective);
  // The launch fails with this message.
  [[noreturn]] void fault(const std::string &message);
  Lane &running_lane() { return lanes_[running_]; }
  std::byte *dynamic_shared() { return dynamic_shared_->data(); }
  bool in_shared_memory(const void *address, size_t bytes) const;
  // Of an asynchronous copy, by the launch's order.
  CopyMoments copy_moments();

 private:
  void run_block();
  bool run_some_warp();
  void run_warp(unsigned warp);
  void cross_barrier();
  void run_lane(unsigned thread);
  void resume(unsigned thread);
  void abandon_and_throw(const std::string &message);
  std::span<Lane> lanes_of(unsigned warp) { return std::span(lanes_).subspan(warp * kLanes, kLanes); }

  std::vector<Lane> lanes_;  // as many as any block has had
  std::optional<GuardedMemory> dynamic_shared_;

  // Of the launch.
  const Launch *launch_ = nullptr;
  std::minstd_rand random_;
  unsigned warps_ = 0;

  // Of the block.
  std::vector<bool> at_barrier_;  // by warp
  std::vector<bool> ended_;       // by warp
  unsigned running_ = 0;          // the lane's thread
  uint64_t turns_ = 0;
  bool abandoned_ = false;
  std::string fault_;
};

// The one that this process has. Whoever launches holds launch.cpp's lock.
Machine &machine();

}  // namespace bonsai::emulation
