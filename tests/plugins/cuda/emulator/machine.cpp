#include "tests/plugins/cuda/emulator/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>

namespace bonsai::emulation {
namespace {

// Thrown inside a fiber to unwind it.
struct Abandoned {};

// More turns of a warp than any kernel of a test takes in a block, or between barriers of the grid: a loop that never
// ends.
constexpr uint64_t kMostTurns = 1'000'000;

// Puts 0..n-1 into the order of the launch.
void take_turns(std::span<unsigned> turns, Order::Kind kind, std::minstd_rand &random) {
  std::iota(turns.begin(), turns.end(), 0u);
  if (kind == Order::Kind::kBackward) std::reverse(turns.begin(), turns.end());
  if (kind == Order::Kind::kRandom) std::shuffle(turns.begin(), turns.end(), random);
}

// "lanes 0 to 3, 9": a list of ascending numbers.
std::string ranges(const std::vector<unsigned> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{} to {}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

// "lanes 0 to 15: sync_warp (a.cu:3); lanes 16 to 31: the end"
std::string who_stands_where(const char *what, std::span<const Collective *const> places) {
  std::vector<std::pair<std::string, std::vector<unsigned>>> groups;
  for (unsigned i = 0; i < places.size(); ++i) {
    const std::string place = places[i] ? describe(*places[i]) : "the kernel's end";
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto &known) { return known.first == place; });
    if (group == groups.end()) group = groups.insert(groups.end(), {place, {}});
    group->second.push_back(i);
  }
  std::string text;
  for (const auto &[place, members] : groups) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} {} at {}", what, ranges(members), place);
  }
  return text;
}

bool all_at_one_place(std::span<const Collective *const> places) {
  return std::all_of(places.begin(), places.end(), [&](const Collective *place) {
    return place == places[0] || (place && places[0] && same_place(*place, *places[0]));
  });
}

// Shared memory begins with garbage, another in each order: NaNs, or anything.
void fill_with_garbage(std::span<std::byte> memory, const Order &order, std::minstd_rand &random) {
  int garbage = 0xFF;
  if (order.kind == Order::Kind::kBackward) garbage = 0x3C;
  if (order.kind == Order::Kind::kRandom) garbage = static_cast<int>(random() >> 8 & 0xFF);
  if (!memory.empty()) std::memset(memory.data(), garbage, memory.size());
}

}  // namespace

Machine &machine() {
  static Machine the_machine;
  return the_machine;
}

void Machine::run(const Launch &launch) {
  launch_ = &launch;
  warps_ = launch.block_threads / kLanes;
  random_.seed(static_cast<unsigned>(launch.order.seed + 1));
  abandoned_ = false;
  fault_.clear();
  order_.resize(size_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  blocks_at_once_ = launch.grid.is_cooperative ? static_cast<unsigned>(order_.size()) : 1;
  while (blocks_.size() < blocks_at_once_) blocks_.push_back(std::make_unique<Block>());
  if (launch.grid.is_cooperative) {
    run_together();
  } else {
    run_one_by_one();
  }
}

void Machine::run_one_by_one() {
  take_turns(order_, launch_->order.kind, random_);
  for (const unsigned number : order_) {
    begin_block(*blocks_[0], number);
    run_block();
  }
}

// All to the first barrier of the grid, all to the next one, and so on, each time in another order if that is random.
void Machine::run_together() {
  for (unsigned i = 0; i < blocks_at_once_; ++i) {
    begin_block(*blocks_[i], i);
    go(*blocks_[i]);
  }
  for (unsigned ended = 0; ended < blocks_at_once_;) {
    take_turns(order_, launch_->order.kind, random_);
    ended = 0;
    for (const unsigned number : order_) {
      come(*blocks_[number]);
      ended += run_block() == Stop::kEnd;
      go(*blocks_[number]);
    }
    if (ended > 0 && ended < blocks_at_once_) {
      abandon_and_throw(
          fmt::format("{} of {} blocks ended while the others wait for the grid", ended, blocks_at_once_));
    }
    for (unsigned i = 0; i < blocks_at_once_; ++i) blocks_[i]->at_barrier.assign(warps_, false);
  }
}

// Makes it the block that runs, at its beginning.
void Machine::begin_block(Block &block, unsigned number) {
  const Grid &grid = launch_->grid;
  block.position = {.thread = 0,
                    .block_threads = launch_->block_threads,
                    .block_x = number % grid.x,
                    .block_y = number / grid.x % grid.y,
                    .block_z = number / grid.x / grid.y,
                    .grid_x = grid.x};
  if (!block.dynamic_shared || block.dynamic_shared->size() != launch_->shared_bytes) {
    block.dynamic_shared.emplace(launch_->shared_bytes, alignof(std::max_align_t));
  }
  while (block.lanes.size() < launch_->block_threads) {
    block.lanes.emplace_back().fiber = std::make_unique<Fiber>([this] { run_lane(); });
  }
  for (unsigned thread = 0; thread < launch_->block_threads; ++thread) {
    Lane &lane = block.lanes[thread];
    lane.copies.clear();
    lane.groups = lane.arrivals = 0;
  }
  block.at_barrier.assign(warps_, false);
  block.ended.assign(warps_, false);
  block.turns = 0;
  block_ = &block;
  position = block.position;
  fill_with_garbage({block.dynamic_shared->data(), block.dynamic_shared->size()}, launch_->order, random_);
  fill_with_garbage(launch_->kernel.static_shared, launch_->order, random_);
}

// Makes it the block that runs, where it stopped.
void Machine::come(Block &block) {
  block_ = &block;
  position = block.position;
  std::copy(block.static_shared.begin(), block.static_shared.end(), launch_->kernel.static_shared.begin());
}

void Machine::go(Block &block) {
  const std::span<std::byte> fixed = launch_->kernel.static_shared;
  block.static_shared.assign(fixed.begin(), fixed.end());
}

// To its end, or to the grid's next barrier.
Machine::Stop Machine::run_block() {
  block_->turns = 0;
  std::optional<Stop> stop;
  while (!stop) stop = run_some_warp();
  return *stop;
}

// Gives one warp a turn, or lets all cross the block's barrier, if that is what they wait for.
std::optional<Machine::Stop> Machine::run_some_warp() {
  std::vector<unsigned> ready;
  for (unsigned warp = 0; warp < warps_; ++warp) {
    if (!block_->ended[warp] && !block_->at_barrier[warp]) ready.push_back(warp);
  }
  if (ready.empty()) {
    const bool all_ended = std::find(block_->ended.begin(), block_->ended.end(), false) == block_->ended.end();
    return all_ended ? Stop::kEnd : cross_barrier();
  }
  switch (launch_->order.kind) {
    case Order::Kind::kForward:
      run_warp(ready.front());
      break;
    case Order::Kind::kBackward:
      run_warp(ready.back());
      break;
    case Order::Kind::kRandom:
      run_warp(ready[random_() % ready.size()]);
      break;
  }
  return std::nullopt;
}

// All warps wait at a barrier or have ended.
std::optional<Machine::Stop> Machine::cross_barrier() {
  std::vector<const Collective *> places(warps_);
  for (unsigned warp = 0; warp < warps_; ++warp)
    places[warp] = block_->ended[warp] ? nullptr : lanes_of(warp)[0].waits_at;
  if (!all_at_one_place(places)) {
    abandon_and_throw(who_stands_where("warps", places) + ", expected all of the block at one place");
  }
  if (places[0]->kind == Collective::Kind::kSyncGrid) return Stop::kGridBarrier;
  block_->at_barrier.assign(warps_, false);
  return std::nullopt;
}

// Every lane of the warp runs to where it meets the others; there they do what they came for.
void Machine::run_warp(unsigned warp) {
  if (++block_->turns > kMostTurns) abandon_and_throw(fmt::format("no end after {} steps of its warps", kMostTurns));
  std::array<unsigned, kLanes> turns;
  take_turns(turns, launch_->order.kind, random_);
  for (const unsigned lane : turns) resume(warp * kLanes + lane);
  std::array<const Collective *, kLanes> places;
  for (unsigned lane = 0; lane < kLanes; ++lane) places[lane] = lanes_of(warp)[lane].waits_at;
  if (!all_at_one_place(places)) {
    abandon_and_throw(
        fmt::format("warp {}: {}, expected all of the warp at one place", warp, who_stands_where("lanes", places)));
  }
  if (!places[0]) {
    block_->ended[warp] = true;
  } else if (places[0]->kind == Collective::Kind::kSyncBlock || places[0]->kind == Collective::Kind::kSyncGrid) {
    block_->at_barrier[warp] = true;
  } else {
    perform(places);
  }
}

void Machine::resume(unsigned thread) {
  running_ = thread;
  position.thread = thread;
  block_->lanes[thread].fiber->resume();
  if (!fault_.empty() && !abandoned_) {
    abandon_and_throw(fmt::format("warp {}, lane {}: {}", thread / kLanes, thread % kLanes, fault_));
  }
}

// A fiber's body.
void Machine::run_lane() {
  try {
    launch_->kernel.entry(launch_->arguments);
  } catch (const Abandoned &) {
  }
  running_lane().waits_at = nullptr;
}

void Machine::meet(const Collective &collective) {
  Lane &lane = running_lane();
  lane.waits_at = &collective;
  lane.fiber->suspend();
  if (abandoned_) throw Abandoned();
}

void Machine::fault(const std::string &message) {
  fault_ = message;
  throw Abandoned();
}

void Machine::abandon_and_throw(const std::string &message) {
  const Position at = position;
  abandoned_ = true;
  for (unsigned i = 0; i < blocks_at_once_; ++i) {
    block_ = blocks_[i].get();
    for (unsigned thread = 0; thread < launch_->block_threads && thread < block_->lanes.size(); ++thread) {
      if (block_->lanes[thread].waits_at) resume(thread);
    }
  }
  throw Failure(fmt::format("{}: {}, block ({}, {}, {}): {}", launch_->kernel.unit, launch_->kernel.name, at.block_x,
                            at.block_y, at.block_z, message));
}

bool Machine::in_shared_memory(const void *address, size_t bytes) const {
  const auto *first = static_cast<const std::byte *>(address);
  const auto within = [&](const std::byte *memory, size_t size) {
    return first >= memory && first + bytes <= memory + size;
  };
  const std::span<std::byte> fixed = launch_->kernel.static_shared;
  const GuardedMemory &dynamic = *block_->dynamic_shared;
  return within(dynamic.data(), dynamic.size()) || within(fixed.data(), fixed.size());
}

// What may happen early or late: late in forward order, early in backward order.
bool Machine::is_early(std::minstd_rand &random) const {
  switch (launch_->order.kind) {
    case Order::Kind::kForward:
      return false;
    case Order::Kind::kBackward:
      return true;
    case Order::Kind::kRandom:
      break;
  }
  return random() / 256 % 2 == 0;
}

bool Machine::copies_at_once() { return is_early(random_); }

// The same for all lanes.
bool Machine::waits_on_arrival(unsigned n) const {
  std::minstd_rand random(static_cast<unsigned>(launch_->order.seed + n));
  random.discard(3);
  return is_early(random);
}

}  // namespace bonsai::emulation
