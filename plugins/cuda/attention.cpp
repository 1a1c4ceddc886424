#include "plugins/cuda/attention.h"

#include <algorithm>
#include <bit>

namespace bonsai::cuda {
namespace {

constexpr uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// Blocks whose registers a multiprocessor holds, which attention.cu asks for at least; and the shared memory of each
// that the system takes for itself, from compute capability 8.0 on.
constexpr uint32_t kNarrowBlocks = 1, kWideBlocks = 2;
constexpr uint32_t kReservedSharedBytes = 1 << 10;

// Partial results are kept in about this memory, more only where a single token needs more.
constexpr uint64_t kPartialBytes = uint64_t{32} << 20;

// The next number of at most three binary digits; so a captured graph lasts for a fifth of a context at least.
uint32_t round_up_count(uint32_t n) {
  if (n <= 4) return n;
  const uint32_t step = std::bit_floor(n - 1) / 4;
  return divide_up(n, step) * step;
}

uint64_t floats_of_sums(const AttentionLimits &limits) {
  return uint64_t{limits.heads} * padded_head_dim(limits.pool.head_dim);
}
uint64_t floats_of_partial(const AttentionLimits &limits) { return floats_of_sums(limits) + 2 * limits.heads; }

uint32_t most_partials(const AttentionLimits &limits) {
  const uint64_t sections = divide_up(limits.max_positions, kAttentionSection);
  const uint64_t fit = kPartialBytes / (floats_of_partial(limits) * sizeof(float));
  return static_cast<uint32_t>(std::min(std::max(fit, sections), limits.max_tokens * sections));
}

bool fits_wide(const AttentionLimits &limits) {
  const uint32_t dtype = limits.pool.dtype, padded = padded_head_dim(limits.pool.head_dim);
  return has_wide(dtype, padded) && wide_shared_bytes(dtype, padded) <= limits.shared_bytes;
}

}  // namespace

AttentionPlanner::AttentionPlanner(const AttentionLimits &limits)
    : limits_(limits),
      group_(limits.heads / limits.pool.kv_heads),
      has_wide_(fits_wide(limits)),
      max_partials_(most_partials(limits)) {
  tiles_.reserve(limits.max_tokens);
  sequences_.reserve(limits.max_tokens);
}

// Every tile has a token at least, and every piece of a split one a partial result.
AttentionPlan AttentionPlanner::most() const {
  const uint32_t tiles = limits_.max_tokens + max_partials_;
  return {round_up_count(tiles * slices(false)), has_wide_ ? round_up_count(tiles * slices(true)) : 0,
          round_up_count(limits_.max_tokens)};
}

uint32_t AttentionPlanner::narrow_shared_bytes() const {
  return cuda::narrow_shared_bytes(padded_head_dim(limits_.pool.head_dim));
}

// Few blocks have the device's memory almost to themselves; many wait for whole sections that they could read piece by
// piece. On an H100 (docs/cuda-kernels.md) 8 blocks gained by copying early, 64 lost.
uint32_t AttentionPlanner::early_bytes(const AttentionPlan &plan) const {
  constexpr uint32_t kMultiprocessorsForABlock = 4;
  const uint64_t blocks = uint64_t{plan.narrow_pieces} * limits_.pool.kv_heads;
  if (blocks * kMultiprocessorsForABlock > limits_.multiprocessors) return 0;
  const uint32_t bytes = cuda::early_bytes(limits_.pool.dtype, padded_head_dim(limits_.pool.head_dim));
  return narrow_shared_bytes() + kNarrowOwnBytes + bytes <= limits_.shared_bytes ? bytes : 0;
}

uint32_t AttentionPlanner::wide_shared_bytes() const {
  return cuda::wide_shared_bytes(limits_.pool.dtype, padded_head_dim(limits_.pool.head_dim));
}

uint64_t AttentionPlanner::partial_weights_offset() const {
  return max_partials_ * floats_of_sums(limits_) * sizeof(float);
}

uint64_t AttentionPlanner::partial_bytes() const { return max_partials_ * floats_of_partial(limits_) * sizeof(float); }

// Blocks of a kernel that the device runs at once, as far as its shared memory goes.
uint64_t AttentionPlanner::blocks_at_once(bool wide) const {
  const uint64_t bytes = (wide ? wide_shared_bytes() : narrow_shared_bytes()) + kReservedSharedBytes;
  const auto held =
      std::clamp<uint64_t>(limits_.multiprocessor_shared_bytes / bytes, 1, wide ? kWideBlocks : kNarrowBlocks);
  return std::max(1u, limits_.multiprocessors) * held;
}

uint32_t AttentionPlanner::slices(bool wide) const { return divide_up(group_, wide ? kWideRows : kNarrowRows); }

uint32_t AttentionPlanner::tokens_a_tile(bool wide) const {
  return std::max(1u, (wide ? kWideRows : kNarrowRows) / group_);
}

AttentionPlan AttentionPlanner::plan(std::span<const uint32_t> positions, std::span<const uint32_t> sequences,
                                     std::byte *arrays) {
  cut_tiles(positions, sequences);
  sort_tiles();
  choose_splits();
  const AttentionPlan plan = count();
  // Surplus ones are zeros.
  const auto place = [&]<class Element>(uint64_t offset, uint32_t n, Element) {
    auto *elements = reinterpret_cast<Element *>(arrays + offset);
    std::fill_n(elements, n, Element{});
    return elements;
  };
  AttentionPiece *narrow = place(0, plan.narrow_pieces, AttentionPiece{});
  AttentionPiece *wide = place(plan.wide_offset(), plan.wide_pieces, AttentionPiece{});
  AttentionSplit *split = place(plan.splits_offset(), plan.splits, AttentionSplit{});
  for (const Tile &tile : tiles_) {
    AttentionPiece *&to = tile.is_wide ? wide : narrow;
    to = write_pieces(tile, to);
    if (!tile.is_split) continue;
    for (uint32_t i = 0; i < tile.n_tokens; ++i) {
      *split++ = {.token = tile.first_token + i,
                  .first_partial = tile.first_partial + i * tile.sections,
                  .n_partials = positions[tile.first_token + i] / kAttentionSection + 1,
                  .reserved = 0};
    }
  }
  return plan;
}

void AttentionPlanner::cut_tiles(std::span<const uint32_t> positions, std::span<const uint32_t> sequences) {
  tiles_.clear();
  const auto n = static_cast<uint32_t>(sequences.size());
  for (uint32_t first = 0, end = 0; first < n; first = end) {
    while (end < n && sequences[end] == sequences[first]) ++end;
    cut_run(positions, first, end - first, sequences[first]);
  }
  may_prepare_ = has_one_tile_for_each_sequence();
}

void AttentionPlanner::cut_run(std::span<const uint32_t> positions, uint32_t first_token, uint32_t n_tokens,
                               uint32_t sequence) {
  const bool wide = has_wide_ && uint64_t{n_tokens} * group_ > kNarrowRows;
  const uint32_t step = tokens_a_tile(wide);
  for (uint32_t i = 0; i < n_tokens; i += step) {
    const uint32_t n = std::min(step, n_tokens - i);
    const uint32_t length = *std::ranges::max_element(positions.subspan(first_token + i, n)) + 1;
    tiles_.push_back({.first_token = first_token + i,
                      .n_tokens = n,
                      .sequence = sequence,
                      .length = length,
                      .sections = divide_up(length, kAttentionSection),
                      .is_wide = wide,
                      .is_split = false,
                      .first_partial = 0});
  }
}

// With all heads of a kv head in its rows. A sequence's tokens may come in several runs.
bool AttentionPlanner::has_one_tile_for_each_sequence() {
  if (slices(false) > 1) return false;
  sequences_.clear();
  for (const Tile &tile : tiles_) {
    if (tile.is_wide) return false;
    sequences_.push_back(tile.sequence);
  }
  std::ranges::sort(sequences_);
  return std::ranges::adjacent_find(sequences_) == sequences_.end();
}

// Long tiles first: the short ones then fill the gaps at the end.
void AttentionPlanner::sort_tiles() {
  std::ranges::sort(tiles_, [](const Tile &a, const Tile &b) {
    return a.sections != b.sections ? a.sections > b.sections : a.first_token < b.first_token;
  });
}

// A tile is split where one block would be at it for twice as long as all blocks take with equal shares: as far as
// there is room for partial results, which cost their writing and reading.
void AttentionPlanner::choose_splits() {
  uint64_t sections = 0;
  for (const Tile &tile : tiles_) sections += uint64_t{tile.sections} * slices(tile.is_wide);
  const uint64_t work = sections * limits_.pool.kv_heads;
  uint32_t partials = 0;
  for (Tile &tile : tiles_) {
    const uint64_t needed = uint64_t{tile.n_tokens} * tile.sections;
    const bool is_long = tile.sections * blocks_at_once(tile.is_wide) > 2 * work;
    tile.is_split = tile.sections > 1 && is_long && partials + needed <= max_partials_;
    if (!tile.is_split) continue;
    tile.first_partial = partials;
    partials += static_cast<uint32_t>(needed);
  }
}

AttentionPlan AttentionPlanner::count() const {
  AttentionPlan plan;
  for (const Tile &tile : tiles_) {
    const uint32_t pieces = slices(tile.is_wide) * (tile.is_split ? tile.sections : 1);
    (tile.is_wide ? plan.wide_pieces : plan.narrow_pieces) += pieces;
    if (tile.is_split) plan.splits += tile.n_tokens;
  }
  return {round_up_count(plan.narrow_pieces), round_up_count(plan.wide_pieces), round_up_count(plan.splits),
          may_prepare_};
}

AttentionPiece *AttentionPlanner::write_pieces(const Tile &tile, AttentionPiece *to) const {
  const uint32_t most_heads = tile.is_wide ? kWideRows : kNarrowRows, step = tile.is_split ? 1 : tile.sections;
  for (uint32_t section = 0; section < tile.sections; section += step) {
    for (uint32_t head = 0; head < group_; head += most_heads) {
      *to++ = {.first_token = tile.first_token,
               .n_tokens = tile.n_tokens,
               .first_head = head,
               .n_heads = std::min(most_heads, group_ - head),
               .sequence = tile.sequence,
               .length = tile.length,
               .first_section = section,
               .end_section = section + step,
               .first_partial = tile.first_partial,
               .partials_a_token = tile.is_split ? tile.sections : 0,
               .reserved = {}};
    }
  }
  return to;
}

}  // namespace bonsai::cuda
