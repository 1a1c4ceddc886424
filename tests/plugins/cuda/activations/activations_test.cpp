// Norms, SwiGLU and the forms in which activations go into products.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

constexpr ActivationForms kAllForms = {.codes_by_128 = true, .bit_planes = true, .codes_by_32 = true, .halves = true};
constexpr uint64_t kColumns = 1111;  // the last group is not whole

// Codes once more, as the CPU backend makes them.
struct Group {
  std::vector<int> codes;
  float scale = 0;
  int sum = 0, second_half = 0;
};

Group quantized(const float *x, uint64_t n, uint64_t size) {
  Group group;
  float amax = 0;
  bool finite = true;
  for (uint64_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  group.codes.resize(size);
  if (!finite) group.scale = std::nanf("");
  if (!finite || amax < std::ldexp(1.0f, -118)) return group;
  group.scale = amax / 127.0f;
  const float inverse = 127.0f / amax;
  for (uint64_t i = 0; i < n; ++i) {
    group.codes[i] = static_cast<int>(std::nearbyint(x[i] * inverse));
    group.sum += group.codes[i];
    if (i >= size / 2) group.second_half += group.codes[i];
  }
  return group;
}

void expect_codes(const float *x, uint64_t n, uint64_t size, const int8_t *codes, const GroupRecord &record) {
  const Group expected = quantized(x, n, size);
  for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(codes[i], expected.codes[i]) << "column " << i << " of " << size;
  if (std::isnan(expected.scale)) {
    ASSERT_TRUE(std::isnan(record.scale));
  } else {
    ASSERT_EQ(record.scale, expected.scale);
  }
  ASSERT_EQ(record.sum, expected.sum);
  ASSERT_EQ(record.second_half_sum, expected.second_half);
}

// Column i's place among the bits of one-bit weights: lane and bit.
void expect_bits(const int8_t *codes, const uint32_t *planes) {
  for (uint32_t column = 0; column < kSegmentColumns; ++column) {
    const uint32_t group = column / 128, j = column % 128 / 32, t = column % 32 / 8, s = column % 8 / 4, i = column % 4;
    for (uint32_t b = 0; b < 8; ++b) {
      const uint32_t word = planes[(4 * b + t) * 4 + group];
      ASSERT_EQ(word >> (8 * i + 2 * j + s) & 1, static_cast<uint32_t>(codes[column]) >> b & 1)
          << "column " << column << " plane " << b;
    }
  }
}

// A token's codes, column by column.
std::vector<int8_t> codes_of(const int8_t *codes, const PackedActivations &packed, uint64_t token, uint64_t padded) {
  std::vector<int8_t> row(padded);
  for (uint32_t i = 0; i < padded; ++i) {
    row[i] = codes[packed_place(packed.together_log2, static_cast<uint32_t>(padded), token, i)];
  }
  return row;
}

void expect_forms(const std::vector<float> &x, uint64_t columns, const PackedActivations &packed) {
  const uint64_t n = x.size() / columns, padded = padded_columns(columns);
  for (uint64_t token = 0; token < n; ++token) {
    std::vector<float> row(padded);
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(token * columns), columns, row.begin());
    const std::vector<int8_t> by_128 = codes_of(packed.codes_by_128, packed, token, padded);
    const std::vector<int8_t> by_32 = codes_of(packed.codes_by_32, packed, token, padded);
    for (uint64_t i = 0; i < padded; i += 128) {
      expect_codes(&row[i], 128, 128, &by_128[i], packed.groups_128[i / 128 * packed.stride + token]);
    }
    for (uint64_t i = 0; i < padded; i += 32) {
      expect_codes(&row[i], 32, 32, &by_32[i], packed.groups_32[i / 32 * packed.stride + token]);
    }
    for (uint64_t i = 0; i < padded; i += kSegmentColumns) {
      expect_bits(&by_128[i], packed.bit_planes + (token * padded + i) / 4);
    }
  }
}

TEST(Activations, CodesAreThoseOfTheCpuBackendInEveryForm) {
  const std::vector<float> x = random_vectors(11, kColumns);
  for (const emulation::Order &order : emulation::kOrders) {
    const Activations activations = pack_activations(kAllForms, x, kColumns, order);
    EXPECT_EQ(activations.packed.stride, 16u);
    expect_forms(x, kColumns, activations.packed);
  }
}

TEST(Activations, ZerosSmallestNumbersAndNotFiniteOnesAreDefined) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(512);
  for (uint64_t i = 0; i < 512; ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::fill_n(x.begin(), 128, 0.0f);
  x[3] = std::ldexp(1.0f, -119);
  x[130] = infinity;
  x[257] = std::nanf("");
  x[300] = -infinity;
  const Activations activations = pack_activations(kAllForms, x, 512);
  expect_forms(x, 512, activations.packed);
  EXPECT_TRUE(std::isnan(activations.packed.row_scales[0]));
  for (uint64_t i = 0; i < 512; ++i) EXPECT_EQ(activations.packed.high[i] | activations.packed.low[i], 0);
}

// Ties go to even: 127 units in the largest number's scale.
TEST(Activations, CodesRoundTiesToEven) {
  std::vector<float> x(512);
  x[0] = 127;
  for (uint64_t i = 1; i < 32; ++i) x[i] = static_cast<float>(i) - 15.5f;
  const Activations activations = pack_activations(kAllForms, x, 512);
  for (uint64_t i = 1; i < 32; ++i) EXPECT_EQ(activations.packed.codes_by_32[i] % 2, 0) << x[i];
}

TEST(Activations, HalvesAreGoodTo21Bits) {
  std::vector<float> x = random_vectors(6, kColumns);
  for (uint64_t i = 0; i < kColumns; ++i) {
    x[i] = std::ldexp(x[i], -140);
    x[kColumns + i] = std::ldexp(x[kColumns + i], 100);
    x[2 * kColumns + i] = 0;
  }
  const Activations activations = pack_activations(kAllForms, x, kColumns);
  const std::vector<double> values = unpacked(activations.packed, Packing::kHalves, 6, kColumns);
  for (uint64_t token = 0; token < 6; ++token) {
    double amax = 0;
    for (uint64_t i = 0; i < kColumns; ++i)
      amax = std::max(amax, std::fabs(static_cast<double>(x[token * kColumns + i])));
    int exponent = 0;
    EXPECT_EQ(std::frexp(activations.packed.row_scales[token], &exponent), 0.5f) << "a power of two";
    const double most = std::max(std::ldexp(amax, -22), token == 0 ? std::ldexp(1.0, -149) : 0);
    for (uint64_t i = 0; i < kColumns; ++i) {
      ASSERT_NEAR(values[token * kColumns + i], static_cast<double>(x[token * kColumns + i]), most)
          << "token " << token;
    }
  }
}

TEST(Activations, FormsThatAreNotAskedForAreNotWritten) {
  const ActivationForms forms = {.codes_by_32 = true};
  const Activations activations = pack_activations(forms, random_vectors(2, 96), 96);
  EXPECT_EQ(activations.packed.codes_by_128, nullptr);
  EXPECT_EQ(activations.packed.groups_128, nullptr);
  EXPECT_EQ(activations.packed.bit_planes, nullptr);
  EXPECT_EQ(activations.packed.high, nullptr);
  EXPECT_EQ(activations.packed.row_scales, nullptr);
}

// -------- Norm and SwiGLU

template <class Arguments>
std::vector<float> run(const char *kernel, Arguments arguments, uint64_t n, uint32_t multiprocessors,
                       const ActivationForms &forms, const emulation::Order &order) {
  const uint64_t columns = arguments.columns;
  std::vector<float> y(n * columns);
  DeviceMemory memory(packed_activation_bytes(forms, n, columns));
  const ActivationPlan plan = plan_activations(n, columns, multiprocessors);
  arguments.y = y.data();
  arguments.packed = place_activations(forms, memory.data(), n, columns);
  arguments.chunk_columns = plan.chunk_columns;
  emulation::launch({"activations.cu", kernel, order}, {static_cast<unsigned>(n), plan.chunks}, kActivationThreads, 0,
                    &arguments);
  expect_forms(y, columns, arguments.packed);
  return y;
}

TEST(RmsNorm, IsTheNormOfEachTokenInEveryForm) {
  constexpr uint64_t kLong = 5000, kTokens = 3, kStride = 5003;
  const std::vector<float> x = random_vectors(kTokens, kStride), weight = random_vectors(1, kLong, 5);
  const QuantizeArguments arguments = {.x = x.data(),
                                       .picked = nullptr,
                                       .weight = weight.data(),
                                       .y = nullptr,
                                       .packed = {},
                                       .x_stride = kStride,
                                       .columns = kLong,
                                       .chunk_columns = 0,
                                       .eps = 1e-6f};
  std::vector<float> expected;
  for (const emulation::Order &order : emulation::kOrders) {
    for (const uint32_t multiprocessors : {1u, 132u}) {  // one chunk, and several
      const std::vector<float> y = run("rms_norm_quantize", arguments, kTokens, multiprocessors, kAllForms, order);
      if (expected.empty()) expected = y;
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0);
    }
  }
  for (uint64_t token = 0; token < kTokens; ++token) {
    double squares = 0;
    for (uint64_t i = 0; i < kLong; ++i) squares += std::pow(static_cast<double>(x[token * kStride + i]), 2);
    const double scale = 1 / std::sqrt(squares / kLong + 1e-6);
    for (uint64_t i = 0; i < kLong; ++i) {
      const double y = static_cast<double>(x[token * kStride + i]) * scale * static_cast<double>(weight[i]);
      ASSERT_NEAR(static_cast<double>(expected[token * kLong + i]), y, 1e-6 * std::fabs(y));
    }
  }
}

// Rows of any order, and twice: what the same rows give where they are the first.
TEST(RmsNorm, PacksTheRowsThatArePicked) {
  constexpr uint64_t kLong = 640, kTokens = 4;
  const std::vector<float> x = random_vectors(7, kLong), weight = random_vectors(1, kLong, 5);
  const std::vector<uint32_t> picked = {6, 0, 3, 3};
  std::vector<float> rows;
  for (const uint32_t row : picked) rows.insert(rows.end(), &x[row * kLong], &x[row * kLong] + kLong);
  QuantizeArguments arguments = {.x = rows.data(),
                                 .picked = nullptr,
                                 .weight = weight.data(),
                                 .y = nullptr,
                                 .packed = {},
                                 .x_stride = kLong,
                                 .columns = kLong,
                                 .chunk_columns = 0,
                                 .eps = 1e-6f};
  const auto pack = [&] { return run("rms_norm_quantize", arguments, kTokens, 132, kAllForms, emulation::kOrders[0]); };
  const std::vector<float> expected = pack();
  arguments.x = x.data();
  arguments.picked = picked.data();
  EXPECT_EQ(pack(), expected);
}

TEST(RmsNorm, GivesTheNormedFloatsAloneIfNothingElseIsAskedFor) {
  const std::vector<float> x = random_vectors(1, 64), weight(64, 1.0f);
  std::vector<float> y(64);
  const QuantizeArguments arguments = {.x = x.data(),
                                       .picked = nullptr,
                                       .weight = weight.data(),
                                       .y = y.data(),
                                       .packed = {},
                                       .x_stride = 64,
                                       .columns = 64,
                                       .chunk_columns = 512,
                                       .eps = 0};
  emulation::launch({"activations.cu", "rms_norm_quantize"}, {1, 1}, kActivationThreads, 0, &arguments);
  double squares = 0;
  for (const float value : y) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares, 64, 1e-4);
}

TEST(Swiglu, IsTheGatedProductInEveryForm) {
  constexpr uint64_t kTokens = 2;
  std::vector<float> gate_up = random_vectors(kTokens, 2 * kColumns);
  gate_up[0] = -200;  // exp overflows
  gate_up[1] = 200;
  const SwigluQuantizeArguments arguments = {
      .gate_up = gate_up.data(), .y = nullptr, .packed = {}, .columns = kColumns, .chunk_columns = 0};
  std::vector<float> expected;
  for (const emulation::Order &order : emulation::kOrders) {
    for (const uint32_t multiprocessors : {1u, 132u}) {
      const std::vector<float> y = run("swiglu_quantize", arguments, kTokens, multiprocessors, kAllForms, order);
      if (expected.empty()) expected = y;
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0);
    }
  }
  for (uint64_t token = 0; token < kTokens; ++token) {
    for (uint64_t i = 0; i < kColumns; ++i) {
      const double gate = static_cast<double>(gate_up[token * 2 * kColumns + i]);
      const double y = gate / (1 + std::exp(-gate)) * static_cast<double>(gate_up[(token * 2 + 1) * kColumns + i]);
      ASSERT_NEAR(static_cast<double>(expected[token * kColumns + i]), y, 1e-30 + 1e-5 * std::fabs(y)) << gate;
    }
  }
}

// -------- Memory and grids

TEST(ActivationMemory, FormsLieApartAndAligned) {
  constexpr uint64_t kTokens = 5;
  DeviceMemory memory(packed_activation_bytes(kAllForms, kTokens, kColumns));
  const PackedActivations packed = place_activations(kAllForms, memory.data(), kTokens, kColumns);
  const std::vector<const void *> places = {packed.codes_by_128, packed.groups_128, packed.bit_planes,
                                            packed.codes_by_32,  packed.groups_32,  packed.high,
                                            packed.low,          packed.row_scales};
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(places[i]) % 256, 0u);
    EXPECT_TRUE(i == 0 || places[i - 1] < places[i]);
  }
  EXPECT_EQ(packed_activation_bytes({}, kTokens, kColumns), 0u);
}

// What a warp reads of eight tokens and 32 columns is 256 bytes in a row; a token alone is a row.
TEST(ActivationMemory, TokensLieTogetherByEights) {
  EXPECT_EQ(together_log2(1), 0u);
  EXPECT_EQ(together_log2(2), 3u);
  for (uint32_t i = 0; i < 1024; ++i) EXPECT_EQ(packed_place(0, 1024, 0, i), i);
  for (uint32_t token = 0; token < 8; ++token) {
    EXPECT_EQ(packed_place(3, 1024, token, 0), 32 * token);
    EXPECT_EQ(packed_place(3, 1024, token, 37), 256 + 32 * token + 5);
    EXPECT_EQ(packed_place(3, 1024, 16 + token, 37), 16 * 1024 + 256 + 32 * token + 5);
  }
}

TEST(ActivationMemory, MoreNeverNeedsLess) {
  size_t before = 0;
  for (uint64_t n = 1; n < 40; ++n) {
    const size_t bytes = packed_activation_bytes(kAllForms, n, kColumns);
    EXPECT_GE(bytes, before);
    EXPECT_GE(packed_activation_bytes(kAllForms, n, kColumns + 1000), bytes);
    before = bytes;
  }
}

TEST(ActivationPlan, ChunksCoverTheColumns) {
  for (const uint64_t n : {1, 3, 200}) {
    for (const uint64_t columns : {1, 512, 4096, 9728, 12288}) {
      const ActivationPlan plan = plan_activations(n, columns, 132);
      EXPECT_EQ(plan.chunk_columns % 512, 0u);
      EXPECT_GE(uint64_t{plan.chunks} * plan.chunk_columns, padded_columns(columns));
      EXPECT_LT(uint64_t{plan.chunks - 1} * plan.chunk_columns, padded_columns(columns));
    }
  }
  EXPECT_EQ(plan_activations(1, 4096, 132).chunks, 4u);
  EXPECT_EQ(plan_activations(200, 4096, 132).chunks, 1u);
}

TEST(ActivationForms, FollowTheFormats) {
  EXPECT_TRUE(ActivationForms::of(Format::kQ1_0_G128, true).bit_planes);
  EXPECT_FALSE(ActivationForms::of(Format::kQ1_0_G128, false).bit_planes);
  ActivationForms forms = ActivationForms::of(Format::kQ4_K, false);
  EXPECT_TRUE(forms.codes_by_32 && !forms.codes_by_128 && !forms.halves);
  forms |= ActivationForms::of(Format::kBF16, false);
  EXPECT_TRUE(forms.codes_by_32 && !forms.codes_by_128 && forms.halves);
}

}  // namespace
}  // namespace bonsai::cuda
