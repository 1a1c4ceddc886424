#include "core/text/token_index.h"

#include <bit>
#include <functional>

namespace bonsai::text {
namespace {

uint32_t tag_of(size_t hash) { return static_cast<uint32_t>(static_cast<uint64_t>(hash) >> 32); }

}  // namespace

std::optional<int32_t> TokenIndex::build(const std::vector<std::string> &tokens) {
  slots_.assign(std::bit_ceil(tokens.size() * 2 + 2), Slot{0, kEmpty});
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) continue;
    const size_t hash = std::hash<std::string_view>{}(tokens[id]);
    Slot &slot = slots_[slot_of(tokens, tokens[id], hash)];
    if (slot.id != kEmpty) return static_cast<int32_t>(id);
    slot = {tag_of(hash), static_cast<int32_t>(id)};
  }
  return std::nullopt;
}

std::optional<int32_t> TokenIndex::find(const std::vector<std::string> &tokens, std::string_view spelling) const {
  const Slot &slot = slots_[slot_of(tokens, spelling, std::hash<std::string_view>{}(spelling))];
  if (slot.id == kEmpty) return std::nullopt;
  return slot.id;
}

size_t TokenIndex::slot_of(const std::vector<std::string> &tokens, std::string_view spelling, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id != kEmpty) {
    if (slots_[at].tag == tag_of(hash) && tokens[static_cast<size_t>(slots_[at].id)] == spelling) break;
    at = (at + 1) & mask;
  }
  return at;
}

}  // namespace bonsai::text
