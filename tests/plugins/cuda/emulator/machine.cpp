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

// More turns of a warp than any kernel of a test takes in a block: a loop that never ends.
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
  if (!dynamic_shared_ || dynamic_shared_->size() != launch.shared_bytes) {
    dynamic_shared_.emplace(launch.shared_bytes, alignof(std::max_align_t));
  }
  while (lanes_.size() < launch.block_threads) {
    const auto thread = static_cast<unsigned>(lanes_.size());
    lanes_.push_back({std::make_unique<Fiber>([this, thread] { run_lane(thread); }), nullptr, {}, 0});
  }
  const Grid &grid = launch.grid;
  position.block_threads = launch.block_threads;
  position.grid_x = grid.x;
  std::vector<unsigned> blocks(size_t{grid.x} * grid.y * grid.z);
  take_turns(blocks, launch.order.kind, random_);
  for (const unsigned block : blocks) {
    position.block_x = block % grid.x;
    position.block_y = block / grid.x % grid.y;
    position.block_z = block / grid.x / grid.y;
    run_block();
  }
}

void Machine::run_block() {
  fill_with_garbage({dynamic_shared_->data(), dynamic_shared_->size()}, launch_->order, random_);
  fill_with_garbage(launch_->kernel.static_shared, launch_->order, random_);
  at_barrier_.assign(warps_, false);
  ended_.assign(warps_, false);
  turns_ = 0;
  abandoned_ = false;
  fault_.clear();
  for (unsigned thread = 0; thread < launch_->block_threads; ++thread) {
    lanes_[thread].copies.clear();
    lanes_[thread].groups = 0;
  }
  while (run_some_warp()) {
  }
}

// Gives one warp a turn, or lets all cross the barrier; false when all have ended.
bool Machine::run_some_warp() {
  std::vector<unsigned> ready;
  for (unsigned warp = 0; warp < warps_; ++warp) {
    if (!ended_[warp] && !at_barrier_[warp]) ready.push_back(warp);
  }
  if (ready.empty()) {
    if (std::find(ended_.begin(), ended_.end(), false) == ended_.end()) return false;
    cross_barrier();
    return true;
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
  return true;
}

// All warps wait at a barrier or have ended.
void Machine::cross_barrier() {
  std::vector<const Collective *> places(warps_);
  for (unsigned warp = 0; warp < warps_; ++warp) places[warp] = ended_[warp] ? nullptr : lanes_of(warp)[0].waits_at;
  if (!all_at_one_place(places)) {
    abandon_and_throw(who_stands_where("warps", places) + ", expected all of the block at one place");
  }
  at_barrier_.assign(warps_, false);
}

// Every lane of the warp runs to where it meets the others; there they do what they came for.
void Machine::run_warp(unsigned warp) {
  if (++turns_ > kMostTurns) abandon_and_throw(fmt::format("no end after {} steps of its warps", kMostTurns));
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
    ended_[warp] = true;
  } else if (places[0]->kind == Collective::Kind::kSyncBlock) {
    at_barrier_[warp] = true;
  } else {
    perform(places);
  }
}

void Machine::resume(unsigned thread) {
  running_ = thread;
  position.thread = thread;
  lanes_[thread].fiber->resume();
  if (!fault_.empty() && !abandoned_) {
    abandon_and_throw(fmt::format("warp {}, lane {}: {}", thread / kLanes, thread % kLanes, fault_));
  }
}

// A fiber's body.
void Machine::run_lane(unsigned thread) {
  try {
    launch_->kernel.entry(launch_->arguments);
  } catch (const Abandoned &) {
  }
  lanes_[thread].waits_at = nullptr;
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
  for (unsigned thread = 0; thread < launch_->block_threads; ++thread) {
    if (lanes_[thread].waits_at) resume(thread);
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
  return within(dynamic_shared_->data(), dynamic_shared_->size()) || within(fixed.data(), fixed.size());
}

CopyMoments Machine::copy_moments() {
  constexpr CopyMoments kLate = {false, false}, kEarly = {true, true}, kBetween = {true, false};
  switch (launch_->order.kind) {
    case Order::Kind::kForward:
      return kLate;
    case Order::Kind::kBackward:
      return kEarly;
    case Order::Kind::kRandom:
      break;
  }
  constexpr std::array<CopyMoments, 3> kAny = {kLate, kEarly, kBetween};
  return kAny[random_() / 256 % kAny.size()];
}

}  // namespace bonsai::emulation
