// The machine: runs the blocks of a launch one after another, and the threads of a block as fibers, in turns. Blocks
// that may wait for each other run each to the grid's next barrier, one after another.
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
};

struct Lane {
  std::unique_ptr<Fiber> fiber;
  const Collective *waits_at = nullptr;  // on the fiber's stack; NULL once it has ended
  std::vector<AsyncCopy> copies;
  unsigned groups = 0;    // of copies, committed
  unsigned arrivals = 0;  // at the grid's barrier
};

// A block, which may be away while others run.
struct Block {
  Position position = {};
  std::vector<Lane> lanes;  // as many as any block has had in its place
  std::optional<GuardedMemory> dynamic_shared;
  std::vector<std::byte> static_shared;  // what was in the unit's when the block went
  std::vector<bool> at_barrier, ended;   // by warp
  uint64_t turns = 0;
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
  Lane &running_lane() { return block_->lanes[running_]; }
  std::byte *dynamic_shared() { return block_->dynamic_shared->data(); }
  bool is_cooperative() const { return launch_->grid.is_cooperative; }
  bool in_shared_memory(const void *address, size_t bytes) const;
  // Whether the order has an asynchronous copy happen when it is started.
  bool copies_at_once();
  // Whether the order has blocks wait for the grid when they arrive for the n-th time, so that what comes between
  // arriving and waiting is late, rather than when they wait.
  bool waits_on_arrival(unsigned n) const;

 private:
  enum class Stop { kEnd, kGridBarrier };
  bool is_early(std::minstd_rand &random) const;
  void run_one_by_one();
  void run_together();
  void begin_block(Block &block, unsigned number);
  void come(Block &block);
  void go(Block &block);
  Stop run_block();
  std::optional<Stop> run_some_warp();
  void run_warp(unsigned warp);
  std::optional<Stop> cross_barrier();
  void run_lane();
  void resume(unsigned thread);
  void abandon_and_throw(const std::string &message);
  std::span<Lane> lanes_of(unsigned warp) { return std::span(block_->lanes).subspan(warp * kLanes, kLanes); }

  std::vector<std::unique_ptr<Block>> blocks_;  // as many as have been at once

  // Of the launch.
  const Launch *launch_ = nullptr;
  std::minstd_rand random_;
  unsigned warps_ = 0;           // of a block
  std::vector<unsigned> order_;  // of its blocks
  unsigned blocks_at_once_ = 0;  // the first ones of blocks_
  bool abandoned_ = false;
  std::string fault_;

  // What runs.
  Block *block_ = nullptr;
  unsigned running_ = 0;  // the lane's thread
};

// The one that this process has. Whoever launches holds launch.cpp's lock.
Machine &machine();

}  // namespace bonsai::emulation
