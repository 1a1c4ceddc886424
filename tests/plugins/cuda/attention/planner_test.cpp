// The planner's pieces are the batch's work, each part of it once, and captured graphs stay valid for a while.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "plugins/cuda/attention.h"

namespace bonsai::cuda {
namespace {

struct Batch {
  std::vector<uint32_t> positions, sequences;

  void add_run(uint32_t sequence, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
      positions.push_back(first + i);
      sequences.push_back(sequence);
    }
  }
};

AttentionLimits limits_of(uint32_t kv_heads, uint32_t group, uint32_t max_tokens) {
  return {
      .pool =
          {.data = nullptr, .dtype = kKvF16, .head_dim = 128, .kv_heads = kv_heads, .block_size = 32, .n_blocks = 1000},
      .heads = kv_heads * group,
      .max_tokens = max_tokens,
      .max_positions = 40'960,
      .multiprocessors = 132,
      .shared_bytes = 227 * 1024,
      .multiprocessor_shared_bytes = 228 * 1024};
}

struct Planned {
  AttentionPlan plan;
  std::vector<AttentionPiece> narrow, wide;
  std::vector<AttentionSplit> splits;
};

Planned plan(AttentionPlanner &planner, const Batch &batch) {
  std::vector<Quad> memory(planner.plan_bytes() / sizeof(Quad));
  auto *const bytes = reinterpret_cast<std::byte *>(memory.data());
  Planned planned;
  planned.plan = planner.plan(batch.positions, batch.sequences, bytes);
  const auto take = [&]<class Element>(uint64_t offset, uint32_t n, std::vector<Element> &to) {
    EXPECT_LE(offset + n * sizeof(Element), planner.plan_bytes());
    const auto *const from = reinterpret_cast<const Element *>(bytes + offset);
    to.assign(from, from + n);
  };
  take(0, planned.plan.narrow_pieces, planned.narrow);
  take(planned.plan.wide_offset(), planned.plan.wide_pieces, planned.wide);
  take(planned.plan.splits_offset(), planned.plan.splits, planned.splits);
  return planned;
}

// Every head of every token meets every section that it sees once; what is split is combined, each partial result
// having a place of its own; what is not is written by one piece.
void expect_whole(const AttentionLimits &limits, const Batch &batch) {
  AttentionPlanner planner(limits);
  const Planned planned = plan(planner, batch);
  const uint32_t group = limits.heads / limits.pool.kv_heads;
  const uint64_t partial_bytes = (padded_head_dim(limits.pool.head_dim) + 2) * limits.heads * sizeof(float);
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, int> met;   // token, head, section
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> partial_of;  // token, section
  std::map<uint32_t, int> in_use;                                // partial results
  for (const std::vector<AttentionPiece> *pieces : {&planned.narrow, &planned.wide}) {
    for (const AttentionPiece &piece : *pieces) {
      EXPECT_LE(piece.n_tokens * piece.n_heads, pieces == &planned.wide ? kWideRows : kNarrowRows);
      for (uint32_t i = 0; i < piece.n_tokens; ++i) {
        const uint32_t token = piece.first_token + i;
        EXPECT_EQ(batch.sequences[token], piece.sequence);
        EXPECT_LT(batch.positions[token], piece.length);
        for (uint32_t section = piece.first_section; section < piece.end_section; ++section) {
          for (uint32_t k = 0; k < piece.n_heads; ++k) ++met[{token, piece.first_head + k, section}];
          if (piece.partials_a_token == 0) continue;
          EXPECT_EQ(section + 1, piece.end_section);
          const uint32_t partial = piece.first_partial + i * piece.partials_a_token + section;
          EXPECT_LE((partial + 1) * partial_bytes, planner.partial_bytes());
          if (partial_of.emplace(std::pair(token, section), partial).second) ++in_use[partial];
        }
        EXPECT_TRUE(piece.partials_a_token > 0 || piece.first_section == 0);
      }
    }
  }
  for (const auto &[partial, times] : in_use) EXPECT_EQ(times, 1) << partial;
  std::map<uint32_t, AttentionSplit> split_of;
  for (const AttentionSplit &split : planned.splits) {
    EXPECT_TRUE(split.n_partials == 0 || split_of.emplace(split.token, split).second);
  }
  for (uint32_t token = 0; token < batch.positions.size(); ++token) {
    const uint32_t sections = batch.positions[token] / kAttentionSection + 1;
    for (uint32_t section = 0; section < sections; ++section) {
      for (uint32_t head = 0; head < group; ++head) EXPECT_EQ((met[{token, head, section}]), 1) << token;
    }
    EXPECT_EQ(split_of.contains(token), partial_of.contains({token, 0}));
    if (!split_of.contains(token)) continue;
    EXPECT_EQ(split_of[token].n_partials, sections);
    for (uint32_t i = 0; i < sections; ++i) EXPECT_EQ((partial_of[{token, i}]), split_of[token].first_partial + i);
  }
}

TEST(Planner, PlansEveryPartOfTheWorkOnce) {
  std::mt19937 random(1);
  for (const uint32_t group : {1, 4, 5, 8, 16, 20, 71}) {
    for (int repetition = 0; repetition < 4; ++repetition) {
      Batch batch;
      for (uint32_t sequence = 0; sequence < 12; ++sequence) {
        const uint32_t n = random() % 3 == 0 ? 1 + random() % 150 : 1 + random() % 3;
        batch.add_run(sequence, random() % (random() % 2 == 0 ? 300 : 6'000), n);
      }
      AttentionLimits limits = limits_of(1 + random() % 8, group, static_cast<uint32_t>(batch.positions.size()));
      limits.multiprocessors = repetition % 2 == 0 ? 132 : 2;
      if (repetition == 3) limits.shared_bytes = 48 * 1024;
      expect_whole(limits, batch);
    }
  }
}

TEST(Planner, SplitsOneLongContextOverTheDevice) {
  AttentionPlanner planner(limits_of(8, 4, 16));
  Batch batch;
  batch.add_run(0, 4095, 1);
  EXPECT_EQ(plan(planner, batch).plan,
            (AttentionPlan{.narrow_pieces = 16, .wide_pieces = 0, .splits = 1, .may_prepare = true}));
}

TEST(Planner, SplitsNothingWhereSequencesFillTheDevice) {
  AttentionPlanner planner(limits_of(8, 4, 256));
  Batch batch;
  for (uint32_t sequence = 0; sequence < 256; ++sequence) batch.add_run(sequence, 1023, 1);
  EXPECT_EQ(plan(planner, batch).plan,
            (AttentionPlan{.narrow_pieces = 256, .wide_pieces = 0, .splits = 0, .may_prepare = true}));
}

// attend_wide takes 64 KiB: a multiprocessor of compute capability 8.6 has room for one such block, one of 9.0 for two.
// A tile of eight blocks is split where there are more than 16.
TEST(Planner, CountsTheBlocksThatSharedMemoryHolds) {
  Batch prompt;
  prompt.add_run(0, 2000, 16);
  AttentionLimits limits = limits_of(8, 4, 16);
  limits.multiprocessors = 12;
  const auto splits = [&limits](const Batch &batch) {
    AttentionPlanner planner(limits);
    return plan(planner, batch).plan.splits;
  };
  EXPECT_EQ(splits(prompt), 16u);
  limits.shared_bytes = 99 * 1024;
  limits.multiprocessor_shared_bytes = 100 * 1024;
  EXPECT_EQ(splits(prompt), 0u);
  limits.shared_bytes = limits.multiprocessor_shared_bytes = 64 * 1024;  // 7.5, where the system takes nothing
  EXPECT_EQ(splits(prompt), 0u);
}

// Where a block has the shared memory, 185 KiB with halves and heads of 128, and there are few blocks.
TEST(Planner, HasASectionCopiedEarlyWhereThereIsRoom) {
  const auto early = [](uint32_t dtype, uint32_t head_dim, uint32_t shared_kib, uint32_t pieces = 1) {
    AttentionLimits limits = limits_of(8, 4, 16);
    limits.pool.dtype = dtype;
    limits.pool.head_dim = head_dim;
    limits.shared_bytes = shared_kib * 1024;
    return AttentionPlanner(limits).early_bytes({.narrow_pieces = pieces});
  };
  EXPECT_EQ(early(kKvF16, 128, 227), 2u * 256 * 128 * 2);
  EXPECT_EQ(early(kKvF16, 128, 163), 0u);
  EXPECT_EQ(early(kKvF16, 64, 163), 2u * 256 * 64 * 2);
  EXPECT_EQ(early(kKvQ8_0, 128, 163), 2u * 256 * 128 * 34 / 32);
  EXPECT_EQ(early(kKvQ8_0, 128, 99), 0u);
  EXPECT_EQ(early(kKvF16, 192, 227), 0u);
  EXPECT_EQ(early(kKvF32, 64, 227), 0u);
  EXPECT_EQ(early(kKvF16, 64, 163, 4), 2u * 256 * 64 * 2);  // 32 blocks on 132 multiprocessors
  EXPECT_EQ(early(kKvF16, 64, 163, 5), 0u);
}

// Of a token's kernel a multiprocessor holds one block, however much shared memory there is.
TEST(Planner, SplitsATokenWhereItsBlocksWouldLeaveMostOfTheDeviceIdle) {
  Batch token;
  token.add_run(0, 2000, 1);
  AttentionLimits limits = limits_of(8, 4, 16);
  for (const uint32_t multiprocessors : {16u, 17u}) {  // eight sections of eight heads, on 16: half of one round
    limits.multiprocessors = multiprocessors;
    AttentionPlanner planner(limits);
    EXPECT_EQ(plan(planner, token).plan.splits, multiprocessors == 17 ? 1u : 0u);
  }
}

TEST(Planner, LetsAttentionPrepareWhereATileHasAllOfASequence) {
  const auto may_prepare = [](uint32_t group, const std::vector<std::array<uint32_t, 3>> &runs) {
    AttentionPlanner planner(limits_of(8, group, 64));
    Batch batch;
    for (const auto &[sequence, first, n] : runs) batch.add_run(sequence, first, n);
    return plan(planner, batch).plan.may_prepare;
  };
  EXPECT_TRUE(may_prepare(4, {{0, 10, 1}, {1, 700, 1}, {2, 0, 4}}));
  EXPECT_FALSE(may_prepare(4, {{0, 10, 1}, {1, 700, 5}}));              // many rows
  EXPECT_FALSE(may_prepare(4, {{0, 10, 1}, {1, 700, 1}, {0, 11, 1}}));  // in two runs
  EXPECT_FALSE(may_prepare(20, {{0, 10, 1}}));                          // heads in two slices
}

TEST(Planner, GivesPromptsTilesOfManyRows) {
  AttentionPlanner planner(limits_of(8, 4, 512));
  Batch batch;
  batch.add_run(0, 0, 512);
  EXPECT_EQ(plan(planner, batch).plan, (AttentionPlan{.narrow_pieces = 0, .wide_pieces = 32, .splits = 0}));
}

// One sequence that grows to 32,768 positions needs another graph some 30 times.
TEST(Planner, ChangesPlansSeldomWhileContextsGrow) {
  AttentionPlanner planner(limits_of(8, 4, 1));
  uint32_t changes = 0;
  AttentionPlan last;
  for (uint32_t position = 0; position < 32'768; ++position) {
    Batch batch;
    batch.add_run(0, position, 1);
    const AttentionPlan now = plan(planner, batch).plan;
    changes += now != last;
    last = now;
  }
  EXPECT_LE(changes, 32u);
}

TEST(Planner, KeepsPartialResultsInLittleMemory) {
  EXPECT_LE(AttentionPlanner(limits_of(8, 4, 2048)).partial_bytes(), uint64_t{33} << 20);
}

}  // namespace
}  // namespace bonsai::cuda
