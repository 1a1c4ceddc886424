// The emulator computes what the vocabulary of simt.cuh promises.
#include "tests/plugins/cuda/emulator/emulator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "core/quant/format.h"
#include "plugins/cuda/kernels/plain_types.h"
#include "tests/plugins/cuda/emulator/example_arguments.h"

namespace bonsai::emulation {
namespace {

using cuda::ExampleArguments;
using cuda::MatrixArguments;

Call example(const char *kernel, const Order &order) { return {"example.cu", kernel, order}; }

std::vector<uint32_t> random_words(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> words(n);
  for (uint32_t &word : words) word = static_cast<uint32_t>(random());
  return words;
}

class EveryOrder : public testing::TestWithParam<Order> {};

std::string name_of(const testing::TestParamInfo<Order> &order) {
  switch (order.param.kind) {
    case Order::Kind::kForward:
      return "forward";
    case Order::Kind::kBackward:
      return "backward";
    case Order::Kind::kRandom:
      break;
  }
  return "random" + std::to_string(order.param.seed);
}

INSTANTIATE_TEST_SUITE_P(Emulator, EveryOrder, testing::ValuesIn(kOrders), name_of);

TEST_P(EveryOrder, RunsEveryThreadOnce) {
  const std::vector<uint32_t> in = random_words(1000, 1);
  std::vector<uint32_t> out(1024, 7);
  const ExampleArguments arguments{in.data(), out.data(), 1000};
  launch(example("add_index", GetParam()), {4}, 256, 0, &arguments);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(out[i], in[i] + i);
  for (uint32_t i = 1000; i < 1024; ++i) EXPECT_EQ(out[i], 7u);
}

TEST_P(EveryOrder, TellsThreadsWhereTheyAre) {
  constexpr Grid kGrid{5, 3};
  std::vector<uint32_t> out(5 * 5 * 3 * 64, 99);
  const ExampleArguments arguments{nullptr, out.data(), 0};
  launch(example("position", GetParam()), kGrid, 64, 0, &arguments);
  const uint32_t *at = out.data();
  for (unsigned y = 0; y < kGrid.y; ++y) {
    for (unsigned x = 0; x < kGrid.x; ++x) {
      for (unsigned thread = 0; thread < 64; ++thread, at += 5) {
        EXPECT_EQ(std::vector<uint32_t>(at, at + 5), (std::vector<uint32_t>{thread % 32, thread / 32, x, y, 5}));
      }
    }
  }
}

TEST_P(EveryOrder, BarriersLetSharedMemoryBeRead) {
  const std::vector<uint32_t> in = random_words(256, 2);
  std::vector<uint32_t> out(256);
  const ExampleArguments arguments{in.data(), out.data(), 0};
  launch(example("block_sum", GetParam()), {1}, 256, 0, &arguments);
  EXPECT_EQ(out, std::vector<uint32_t>(256, std::accumulate(in.begin(), in.end(), 0u)));
}

TEST_P(EveryOrder, ShufflesValuesBetweenLanes) {
  std::vector<uint32_t> in(32), out(96);
  std::iota(in.begin(), in.end(), 0u);
  std::shuffle(in.begin(), in.end(), std::mt19937(3));
  const ExampleArguments arguments{in.data(), out.data(), 13};
  launch(example("shuffles", GetParam()), {1}, 32, 0, &arguments);
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], in[in[lane]]);
    EXPECT_EQ(out[32 + lane], in[(lane + 13) % 32]);
    EXPECT_EQ(out[64 + lane], in[lane ^ 13]);
  }
}

TEST_P(EveryOrder, BallotsTellWhoSaysYes) {
  const std::vector<uint32_t> in = random_words(96, 4);
  std::vector<uint32_t> out(3), expected(3);
  const ExampleArguments arguments{in.data(), out.data(), 0};
  launch(example("ballots", GetParam()), {1}, 96, 0, &arguments);
  for (unsigned i = 0; i < 96; ++i) expected[i / 32] |= (in[i] % 2) << (i % 32);
  EXPECT_EQ(out, expected);
}

TEST_P(EveryOrder, CountsWithAtomics) {
  std::vector<uint32_t> out(1 + 128);
  const ExampleArguments arguments{nullptr, out.data(), 0};
  launch(example("count", GetParam()), {2}, 64, 0, &arguments);
  EXPECT_EQ(out[0], 128u);
  std::sort(out.begin() + 1, out.end());
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[1 + i], i);
}

TEST_P(EveryOrder, CopiesToSharedMemoryAndPadsWithZeros) {
  constexpr unsigned kThreads = 64, kPresent = 100;
  alignas(16) uint32_t in[4 * 2 * kThreads], out[4 * 2 * kThreads];
  const std::vector<uint32_t> words = random_words(std::size(in), 5);
  std::copy(words.begin(), words.end(), in);
  const ExampleArguments arguments{in, out, kPresent};
  launch(example("reverse_quads", GetParam()), {1}, kThreads, 2 * kThreads * 16, &arguments);
  for (unsigned i = 0; i < std::size(in); ++i) {
    const unsigned quad = i / 4, source = quad / kThreads * kThreads + kThreads - 1 - quad % kThreads;
    EXPECT_EQ(out[i], source < kPresent ? in[4 * source + i % 4] : 0) << i;
  }
}

TEST_P(EveryOrder, StreamsSixteenBytes) {
  alignas(16) uint32_t in[128], out[128] = {};
  std::iota(std::begin(in), std::end(in), 0u);
  const ExampleArguments arguments{in, out, 0};
  launch(example("stream", GetParam()), {1}, 32, 0, &arguments);
  EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
}

// What cvt, sqrt.rn, div.rn and ex2.approx.ftz give.
TEST(EmulatorNumbers, ConvertAsTheDeviceDoes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[32] = {3.0f,     0.5f,    1.5f,     2.5f,      -2.5f,      65504.0f, 65520.0f,      1e30f,
                            -1e30f,   0x1p31f, -0x1p31f, kInfinity, -kInfinity, NAN,      0x1p-24f,      0x1p-25f,
                            0x3p-25f, -126.0f, -126.5f,  -200.0f,   127.5f,     128.0f,   0x1p-130f,     1.0f,
                            2.0f,     -1.0f,   0.0f,     -0.0f,     0.1f,       7.0f,     2147483520.0f, 0.3f};
  std::vector<uint32_t> in(32), out(6 * 32);
  for (size_t i = 0; i < 32; ++i) in[i] = std::bit_cast<uint32_t>(values[i]);
  const ExampleArguments arguments{in.data(), out.data(), 0};
  launch(example("numbers", {}), {1}, 32, 0, &arguments);
  const auto half_of = [&](size_t i) { return out[6 * i + 1]; };
  const auto int_of = [&](size_t i) { return static_cast<int>(out[6 * i + 2]); };
  const auto exp2_of = [&](size_t i) { return std::bit_cast<float>(out[6 * i + 3]); };
  EXPECT_EQ(half_of(5), 0x7BFFu);
  EXPECT_EQ(half_of(6), 0x7C00u);  // halfway to 65536, to even
  EXPECT_EQ(half_of(13), 0x7FFFu);
  EXPECT_EQ(half_of(14), 1u);
  EXPECT_EQ(half_of(15), 0u);
  EXPECT_EQ(half_of(16), 2u);
  const std::vector<int> ints = {3,         0,         2,         2,         -2,        65504,     65520,
                                 INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0};
  for (size_t i = 0; i < ints.size(); ++i) EXPECT_EQ(int_of(i), ints[i]) << values[i];
  EXPECT_EQ(int_of(30), 2147483520);
  EXPECT_EQ(exp2_of(0), 8.0f);
  EXPECT_EQ(exp2_of(11), kInfinity);
  EXPECT_EQ(exp2_of(12), 0.0f);
  EXPECT_EQ(exp2_of(17), 0x1p-126f);
  EXPECT_EQ(exp2_of(18), 0.0f);  // would be subnormal
  EXPECT_EQ(exp2_of(19), 0.0f);
  EXPECT_EQ(exp2_of(21), kInfinity);
  EXPECT_EQ(exp2_of(22), 1.0f);
  for (size_t i = 0; i < 32; ++i) {
    const float half = quant::half_to_float(static_cast<uint16_t>(in[i] >> 16));
    EXPECT_EQ(out[6 * i], std::bit_cast<uint32_t>(half));
    if (std::isnan(values[i])) continue;
    if (values[i] >= 0) {
      EXPECT_EQ(out[6 * i + 4], std::bit_cast<uint32_t>(std::sqrt(values[i])));
    }
    EXPECT_EQ(out[6 * i + 5], std::bit_cast<uint32_t>(values[i] / 3.0f));
  }
}

// a (16, k) and b (k, 8), b by columns, in the types that an mma takes, and the sums so far.
template <class Number, class Sum>
struct Matrices {
  std::vector<Number> a, b;
  std::vector<Sum> c = std::vector<Sum>(16 * 8);

  explicit Matrices(size_t k) : a(16 * k), b(8 * k) {}

  // The sums that the kernel makes.
  std::vector<Sum> multiply(const char *kernel, const Order &order) {
    std::vector<Sum> sums = c;
    const MatrixArguments arguments{a.data(), b.data(), sums.data()};
    launch(example(kernel, order), {1}, 32, 0, &arguments);
    return sums;
  }
};

void expect_s8_product(const char *kernel, size_t k, const Order &order) {
  std::mt19937 random(6);
  Matrices<int8_t, int32_t> matrices(k);
  for (auto *side : {&matrices.a, &matrices.b}) {
    for (int8_t &number : *side) number = static_cast<int8_t>(random());
  }
  for (int32_t &sum : matrices.c) sum = static_cast<int32_t>(random() % 2'000'000) - 1'000'000;
  std::vector<int32_t> expected = matrices.c;
  for (size_t i = 0; i < 16 * 8 * k; ++i) {
    const size_t row = i / k / 8, column = i / k % 8;
    expected[row * 8 + column] += matrices.a[row * k + i % k] * matrices.b[column * k + i % k];
  }
  EXPECT_EQ(matrices.multiply(kernel, order), expected);
}

TEST_P(EveryOrder, MultipliesBytesOver32) { expect_s8_product("multiply_s8_k32", 32, GetParam()); }

TEST_P(EveryOrder, MultipliesBytesOver16) { expect_s8_product("multiply_s8_k16", 16, GetParam()); }

TEST_P(EveryOrder, MultipliesHalves) {
  constexpr size_t kK = 16;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Matrices<uint16_t, float> matrices(kK);
  for (auto *side : {&matrices.a, &matrices.b}) {
    for (uint16_t &number : *side) number = quant::float_to_half(normal(random));
  }
  for (float &sum : matrices.c) sum = normal(random);
  const std::vector<float> sums = matrices.multiply("multiply_f16_k16", GetParam());
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      double expected = matrices.c[row * 8 + column];
      for (size_t i = 0; i < kK; ++i) {
        expected += double{quant::half_to_float(matrices.a[row * kK + i])} *
                    double{quant::half_to_float(matrices.b[column * kK + i])};
      }
      EXPECT_EQ(sums[row * 8 + column], static_cast<float>(expected)) << row << ", " << column;
    }
  }
}

TEST_P(EveryOrder, MultipliesBits) {
  Matrices<uint32_t, int32_t> matrices(4);  // words: k is 128 bits
  matrices.a = random_words(16 * 4, 8);
  matrices.b = random_words(8 * 4, 9);
  for (int32_t &sum : matrices.c) sum = 5;
  const std::vector<int32_t> sums = matrices.multiply("multiply_b1_k128", GetParam());
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      int32_t expected = 5;
      for (size_t k = 0; k < 128; ++k) {
        const uint32_t both = matrices.a[row * 4 + k / 32] & matrices.b[column * 4 + k / 32];
        expected += static_cast<int32_t>(both >> (k % 32) & 1);
      }
      EXPECT_EQ(sums[row * 8 + column], expected) << row << ", " << column;
    }
  }
}

}  // namespace
}  // namespace bonsai::emulation
