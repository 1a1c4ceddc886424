// Attention on a CUDA device is what float64 computes from the stored keys and values, and a token's bytes are its own:
// the same alone, in a prompt of any chunking and beside other sequences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/plugins/cuda/attention/attention_support.h"

namespace bonsai::cuda {
namespace {

using emulation::Order;

// A float32 computation of this length; the bound of DESIGN §7 is 1e-4.
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
                                         AttentionShape{kKvQ8_0, 64, 1, 71, 32}),
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

}  // namespace
}  // namespace bonsai::cuda
