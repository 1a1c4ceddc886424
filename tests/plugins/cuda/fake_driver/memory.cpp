#include "tests/plugins/cuda/fake_driver/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace bonsai::fake {
namespace {

// What memory holds before it is written (NaN, -1), and what lies between its end and the page that guards it.
constexpr int kGarbage = 0xFF, kBeyond = 0xA5;

// Of a large allocation, both ends are filled: pages that nobody touches cost nothing.
constexpr size_t kFilledEnd = 256 * 1024;

std::byte *end_of(const emulation::GuardedMemory &memory) { return memory.data() + memory.size(); }

bool is_whole(const emulation::GuardedMemory &memory) {
  return std::all_of(end_of(memory), end_of(memory) + memory.slack(),
                     [](std::byte byte) { return byte == std::byte{kBeyond}; });
}

}  // namespace

void *Arena::allocate(size_t bytes) {
  emulation::GuardedMemory memory(bytes, alignment_);
  const size_t filled = std::min(bytes, kFilledEnd);
  std::memset(memory.data(), kGarbage, filled);
  std::memset(end_of(memory) - filled, kGarbage, filled);
  std::memset(end_of(memory), kBeyond, memory.slack());
  memory.set_accessible(is_accessible_);
  void *address = memory.data();
  alive_.emplace(reinterpret_cast<uintptr_t>(address), std::move(memory));
  bytes_ += bytes;
  return address;
}

const char *Arena::free(void *address) {
  const auto found = alive_.find(reinterpret_cast<uintptr_t>(address));
  if (found == alive_.end()) {
    return freed_.contains(reinterpret_cast<uintptr_t>(address)) ? "it was freed before" : "it was not allocated here";
  }
  emulation::GuardedMemory &memory = found->second;
  memory.set_accessible(true);
  const bool was_whole = is_whole(memory);
  bytes_ -= memory.size();
  memory.give_pages_back();
  freed_.insert(alive_.extract(found));
  return was_whole ? nullptr : "something was written beyond its end";
}

// The last that begins at or before the address.
Arena::Map::const_iterator Arena::at_or_before(const Map &map, const void *address) const {
  const auto after = map.upper_bound(reinterpret_cast<uintptr_t>(address));
  return after == map.begin() ? map.end() : std::prev(after);
}

std::string Arena::problem_of(const void *address, size_t bytes) const {
  const auto has = [&](const Map &map, Map::const_iterator at) {
    return at != map.end() && static_cast<const std::byte *>(address) < end_of(at->second);
  };
  const auto found = at_or_before(alive_, address);
  if (!has(alive_, found))
    return has(freed_, at_or_before(freed_, address)) ? "was freed before" : "is not such memory";
  const auto left = static_cast<size_t>(end_of(found->second) - static_cast<const std::byte *>(address));
  if (left < bytes) return fmt::format("has {} bytes to the end of its allocation", left);
  return {};
}

bool Arena::overlaps(const void *address, size_t bytes) const {
  const auto *first = static_cast<const std::byte *>(address);
  const auto found = at_or_before(alive_, first + (bytes > 0 ? bytes - 1 : 0));
  return found != alive_.end() && first < end_of(found->second);
}

void Arena::set_accessible(bool is_accessible) {
  if (is_accessible == is_accessible_) return;
  is_accessible_ = is_accessible;
  for (auto &[address, memory] : alive_) memory.set_accessible(is_accessible);
}

}  // namespace bonsai::fake
