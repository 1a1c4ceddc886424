// Attention on a CUDA device is what float64 computes from the stored keys and values, and a token's bytes are its own:
// the same alone, in a prompt of any chunking and beside other sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/plugins/cuda/attention/attention_support.h"

namespace bonsai::cuda {
namespace {

using emulation::Order;

// A float32 computation of this length; the promised bound is 1e-4.
constexpr double kTolerance = 3e-6;

uint32_t width_of(const Sequences &sequences) { return sequences.shape().heads() * sequences.shape().head_dim; }

void expect_accurate(const Sequences &sequences, const std::vector<Token> &tokens, const Circumstances &circumstances) {
  const std::vector<float> y = sequences.attend(tokens, circumstances);
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_LT(relative_error(&y[i * width_of(sequences)], sequences.expect(tokens[i])), kTolerance)
        << name_of(sequences.shape()) << ", sequence " << tokens[i].sequence << ", position " << tokens[i].position;
  }
}

// Every token's bytes are what it has alone.
void expect_bytes_of_its_own(const Sequences &sequences, const std::vector<Token> &tokens,
                             const Circumstances &circumstances) {
  const std::vector<float> y = sequences.attend(tokens, circumstances);
  const uint32_t width = width_of(sequences);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<float> alone = sequences.attend({tokens[i]});
    EXPECT_EQ(std::memcmp(&y[i * width], alone.data(), width * sizeof(float)), 0)
        << name_of(sequences.shape()) << ", sequence " << tokens[i].sequence << ", position " << tokens[i].position;
  }
}

std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class EveryShape : public testing::TestWithParam<AttentionShape> {};

INSTANTIATE_TEST_SUITE_P(Attention, EveryShape,
                         testing::Values(AttentionShape{kKvF16, 64, 2, 4, 32}, AttentionShape{kKvQ8_0, 64, 2, 4, 32},
                                         AttentionShape{kKvF32, 64, 2, 4, 32}, AttentionShape{kKvF16, 128, 1, 8, 16},
                                         AttentionShape{kKvQ8_0, 128, 1, 8, 128}, AttentionShape{kKvF16, 32, 2, 1, 64},
                                         AttentionShape{kKvQ8_0, 32, 1, 2, 16}, AttentionShape{kKvF32, 32, 1, 5, 16},
                                         AttentionShape{kKvF16, 96, 1, 5, 128}, AttentionShape{kKvQ8_0, 96, 2, 3, 32},
                                         AttentionShape{kKvF16, 256, 1, 2, 32}, AttentionShape{kKvQ8_0, 256, 1, 1, 64},
                                         AttentionShape{kKvF16, 10, 3, 2, 16}, AttentionShape{kKvF32, 10, 1, 3, 32},
                                         AttentionShape{kKvF16, 80, 1, 6, 32}, AttentionShape{kKvF16, 64, 1, 20, 32},
                                         AttentionShape{kKvQ8_0, 64, 1, 71, 32}, AttentionShape{kKvF16, 192, 1, 4, 32},
                                         AttentionShape{kKvQ8_0, 192, 2, 3, 16}, AttentionShape{kKvF16, 160, 1, 2, 16},
                                         AttentionShape{kKvF16, 128, 1, 16, 32}),
                         [](const auto &parameter) { return name_of(parameter.param); });

TEST_P(EveryShape, AgreesWithFloat64WhenDecoding) {
  const Sequences sequences(GetParam(), {1, 16, 63, 64, 65, 256, 257, 600});
  std::vector<Token> tokens;
  for (uint32_t i = 0; i < 8; ++i) tokens.push_back({i, std::vector{1u, 16u, 63u, 64u, 65u, 256u, 257u, 600u}[i] - 1});
  expect_accurate(sequences, tokens, {});
  expect_accurate(sequences, tokens, {.multiprocessors = 1});
}

TEST_P(EveryShape, AgreesWithFloat64InPrompts) {
  const Sequences sequences(GetParam(), {301});
  expect_accurate(sequences, run(0, 0, 40), {});
  expect_accurate(sequences, run(0, 230, 301), {.multiprocessors = 1});
}

TEST_P(EveryShape, GivesTokensTheSameBytesInAnyBatch) {
  const Sequences sequences(GetParam(), {290, 70, 1});
  const std::vector<Token> mixed = run(1, 69, 70) + run(0, 250, 273) + run(2, 0, 1) + run(1, 60, 64);
  expect_bytes_of_its_own(sequences, mixed, {});
  expect_bytes_of_its_own(sequences, mixed, {.multiprocessors = 1});
}

// One launch instead of two: the same results, and the same keys and values in the pool; with the shared memory for
// strips that come early, and without.
TEST_P(EveryShape, PreparesWhatItAttendsTo) {
  const uint32_t group = GetParam().group;
  if (group > kNarrowRows) return;         // a block has not all heads of a kv head
  const uint32_t n = kNarrowRows / group;  // tokens of a tile
  const std::vector<uint32_t> lengths = {1, 16, 65, 256, 257, 600};
  std::vector<Token> tokens = {{0, 0}, {1, 15}, {2, 64}, {3, 255}, {4, 256}};
  if (n > 1) tokens[4] = {4, 255}, tokens.push_back({4, 256});  // in two sections
  for (uint32_t i = 0; i < n; ++i) tokens.push_back({5, 599 - i * 7});
  std::vector<Circumstances> all;
  for (const uint32_t multiprocessors : {1u, 132u}) {
    for (const Order &order : emulation::kOrders) all.push_back({.multiprocessors = multiprocessors, .order = order});
    all.push_back({.multiprocessors = multiprocessors, .shared_bytes = 0});
    all.push_back({.multiprocessors = multiprocessors, .copies_early = true});  // one of several sections, too
  }
  for (const Circumstances &circumstances : all) {
    Sequences one(GetParam(), lengths), two(GetParam(), lengths);
    const std::vector<float> expected = two.prepare_and_attend(tokens, Sequences::Launches::kTwo),
                             y = one.prepare_and_attend(tokens, Sequences::Launches::kOne, circumstances);
    ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
        << circumstances.multiprocessors << " multiprocessors, " << circumstances.shared_bytes << " bytes";
    for (uint32_t layer = 0; layer < one.pool().layers(); ++layer) {
      for (uint32_t block = 0; block < one.pool().shape().n_blocks; ++block) {
        ASSERT_TRUE(std::ranges::equal(one.pool().block(layer, block), two.pool().block(layer, block))) << block;
      }
    }
  }
}

// Heads that are packed where they are finished: by the block that has all of a context, which walks along it where the
// device is small, or where its sections are folded.
TEST(Attention, PacksHeadsAsTheyWouldBePackedLater) {
  const ActivationForms of_128 = {.codes_by_128 = true, .bit_planes = true}, of_32 = {.codes_by_32 = true};
  const ActivationForms all = {.codes_by_128 = true, .bit_planes = true, .codes_by_32 = true};
  for (const AttentionShape &shape : {AttentionShape{kKvF16, 128, 2, 4, 32}, AttentionShape{kKvQ8_0, 128, 1, 8, 16},
                                      AttentionShape{kKvF16, 256, 1, 2, 32}, AttentionShape{kKvQ8_0, 256, 2, 1, 64}}) {
    ASSERT_TRUE(may_pack_heads(shape.heads(), shape.head_dim));
    const Sequences sequences(shape, {700, 65, 1, 300});
    const std::vector<Token> one = run(0, 699, 700);
    const std::vector<Token> several = run(0, 698, 700) + run(1, 64, 65) + run(2, 0, 1) + run(3, 298, 300);
    for (const std::vector<Token> &tokens : {one, run(1, 64, 65), several}) {
      for (const uint32_t multiprocessors : {1, 132}) {
        for (const ActivationForms &forms : {of_128, of_32, all}) {
          const Circumstances circumstances = {.multiprocessors = multiprocessors, .order = emulation::kOrders[1]};
          EXPECT_EQ(sequences.attend_packing(tokens, forms, circumstances),
                    sequences.attend_and_pack(tokens, forms, circumstances))
              << name_of(shape) << ", " << tokens.size() << " tokens, " << multiprocessors << " multiprocessors, forms "
              << forms.codes_by_128 << forms.codes_by_32;
        }
      }
    }
  }
}

// Contexts split over blocks and walked along, tiles of few and of many rows: all in every order of the emulator.
TEST(Attention, GivesTheSameBytesInEveryOrder) {
  for (const AttentionShape &shape : {AttentionShape{kKvF16, 64, 1, 4, 16}, AttentionShape{kKvQ8_0, 32, 2, 2, 16},
                                      AttentionShape{kKvF32, 32, 1, 3, 16}}) {
    const Sequences sequences(shape, {520, 30});
    const std::vector<Token> tokens = run(0, 519, 520) + run(1, 0, 30) + run(0, 500, 519);
    for (uint32_t multiprocessors : {1, 132}) {
      const std::vector<float> expected = sequences.attend(tokens, {.multiprocessors = multiprocessors});
      for (const Order &order : emulation::kOrders) {
        const std::vector<float> y = sequences.attend(tokens, {.multiprocessors = multiprocessors, .order = order});
        EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0) << name_of(shape);
      }
    }
  }
}

TEST(Attention, GivesTheSameBytesWithoutSharedMemoryForManyRows) {
  const Sequences sequences({kKvF16, 64, 1, 4, 32}, {330});
  const std::vector<Token> tokens = run(0, 290, 330);
  const std::vector<float> wide = sequences.attend(tokens),
                           narrow = sequences.attend(tokens, {.shared_bytes = 48 << 10});
  EXPECT_EQ(std::memcmp(wide.data(), narrow.data(), wide.size() * sizeof(float)), 0);
}

TEST(Attention, TakesPositionsInAnyOrder) {
  const Sequences sequences({kKvF16, 32, 1, 2, 16}, {300});
  expect_bytes_of_its_own(sequences, {{0, 299}, {0, 3}, {0, 270}, {0, 64}, {0, 63}}, {});
  expect_bytes_of_its_own(sequences, {{0, 299}, {0, 3}, {0, 270}, {0, 64}, {0, 63}}, {.multiprocessors = 1});
}

TEST(Attention, ReachesOverLongContexts) {
  const Sequences sequences({kKvF16, 32, 1, 1, 128}, {40'960});
  const std::vector<Token> tokens = {{0, 40'959}};
  expect_accurate(sequences, tokens, {});
  expect_bytes_of_its_own(sequences, tokens, {.multiprocessors = 1});
}

// Keys and values as large as halves are: scores in the millions, weights of which one is all.
TEST(Attention, IsFiniteForTheLargestNumbers) {
  for (uint32_t dtype : {kKvF16, kKvQ8_0, kKvF32}) {
    Sequences sequences({dtype, 64, 1, 2, 16}, {80});
    for (uint32_t position = 0; position < 80; ++position) {
      const float sign = position % 2 == 0 ? 1.0f : -1.0f;
      sequences.store({0, position}, std::vector<float>(64, sign * 60'000), std::vector<float>(64, 65'504));
    }
    const std::vector<float> y = sequences.attend({{0, 79}});
    for (float value : y) EXPECT_NEAR(value, 65'504, 65'504 * 1e-3) << dtype_name(dtype);
  }
}

// Scores whose steps, in float, are as large as the power of two that weights are multiplied with.
TEST(Attention, IsFiniteForScoresOfManyMillions) {
  for (const float size : {100.0f, 1000.0f, 10'000.0f}) {
    Sequences sequences({kKvF16, 64, 1, 2, 16}, {80});
    sequences.set_query_size(size);
    for (uint32_t position = 0; position < 80; ++position) {
      sequences.store({0, position}, std::vector<float>(64, 40'000 + 250 * static_cast<float>(position)),
                      std::vector<float>(64, 1));
    }
    for (const float value : sequences.attend(run(0, 0, 80))) EXPECT_NEAR(value, 1, 1e-3) << size;
  }
}

// Groups of very small values: their scales are among the smallest halves.
TEST(Attention, KeepsSmallValues) {
  for (uint32_t dtype : {kKvF16, kKvQ8_0, kKvF32}) {
    Sequences sequences({dtype, 64, 1, 2, 16}, {200});
    for (uint32_t position = 0; position < 200; ++position) {
      std::vector<float> value(64);
      for (uint32_t d = 0; d < 64; ++d) value[d] = static_cast<float>((position * 7 + d * 13) % 101) * 0x1p-17f;
      sequences.store({0, position}, std::vector<float>(64, 0.01f * static_cast<float>(position % 9)), value);
    }
    expect_accurate(sequences, {{0, 199}, {0, 77}}, {});
  }
}

// One sequence's overflow must not reach another's tokens, whose blocks it had before.
TEST(Attention, SeesNothingOfWhatIsNotStored) {
  for (uint32_t dtype : {kKvF16, kKvQ8_0, kKvF32}) {
    const Sequences sequences({dtype, 64, 1, 4, 128}, {5});  // of a pool full of NaNs
    expect_accurate(sequences, run(0, 0, 5), {});
    expect_accurate(sequences, {{0, 4}}, {});
  }
}

}  // namespace
}  // namespace bonsai::cuda
