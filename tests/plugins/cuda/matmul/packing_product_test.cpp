// Products that norm or gate and pack their token themselves, against the same in separate launches.
#include <array>
#include <cstring>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

constexpr uint64_t kRows = 245;  // 16 tiles, the last of five rows
constexpr float kEps = 1e-6f;

struct Case {
  Format format;
  PackedSource source;
  uint64_t columns;
};

std::string name_of_case(const testing::TestParamInfo<Case> &info) {
  constexpr const char *kSources[] = {"Plain", "Normed", "Gated"};
  return name_of(info.param.format) + kSources[static_cast<size_t>(info.param.source)] +
         std::to_string(info.param.columns);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Format format : {Format::kQ1_0_G128, Format::kTQ2_0_G128}) {
    for (const PackedSource source : {PackedSource::kPlain, PackedSource::kNormed, PackedSource::kGated}) {
      for (const uint64_t columns : {128, 768, 4608, 6272}) cases.push_back({format, source, columns});
    }
  }
  return cases;
}

class PackingProduct : public testing::TestWithParam<Case> {
 protected:
  // A token's numbers: for SwiGLU gate, then up.
  std::vector<float> token() const {
    const uint64_t n = GetParam().columns * (GetParam().source == PackedSource::kGated ? 2 : 1);
    return random_vectors(1, n, 3);
  }

  // Packed by the kernels of activations.cu.
  Activations packed_apart(const std::vector<float> &x, const std::vector<float> &norm) const {
    const uint64_t columns = GetParam().columns;
    const ActivationForms forms = ActivationForms::of(GetParam().format, true);
    Activations activations = {DeviceMemory(packed_activation_bytes(forms, 1, columns)), {}};
    activations.packed = place_activations(forms, activations.memory.data(), 1, columns);
    const ActivationPlan plan = plan_activations(1, columns, kTestDevice.multiprocessors);
    const emulation::Grid grid = {1, plan.chunks};
    if (GetParam().source == PackedSource::kGated) {
      SwigluQuantizeArguments arguments = {};
      arguments.gate_up = x.data();
      arguments.packed = activations.packed;
      arguments.columns = static_cast<uint32_t>(columns);
      arguments.chunk_columns = plan.chunk_columns;
      emulation::launch({"activations.cu", "swiglu_quantize", kForward}, grid, kActivationThreads, 0, &arguments);
      return activations;
    }
    const bool is_normed = GetParam().source == PackedSource::kNormed;
    QuantizeArguments arguments = {};
    arguments.x = x.data();
    arguments.weight = is_normed ? norm.data() : nullptr;
    arguments.packed = activations.packed;
    arguments.x_stride = columns;
    arguments.columns = static_cast<uint32_t>(columns);
    arguments.chunk_columns = plan.chunk_columns;
    arguments.eps = kEps;
    emulation::launch({"activations.cu", is_normed ? "rms_norm_quantize" : "quantize", kForward}, grid,
                      kActivationThreads, 0, &arguments);
    return activations;
  }

  // Packed apart, then multiplied by the plain kernel.
  void multiply_apart(RandomMatrix &matrix, const std::vector<float> &x, const std::vector<float> &norm,
                      const Product &product, float *y) const {
    const MatmulShape shape = {GetParam().format, product.first_row, product.rows, matrix.columns(), 1};
    run_matmul(plan_matmul(shape, kTestDevice), matrix, matrix.pack(), packed_apart(x, norm), 1, product, y);
  }

  void multiply_packing(const PackingPlan &plan, RandomMatrix &matrix, const std::vector<float> &x,
                        const std::vector<float> &norm, const Product &product, float *y,
                        const emulation::Order &order = kForward) const {
    PackingMatmulArguments arguments = {};
    arguments.product.weights = matrix.pack();
    arguments.product.tile_bytes = matrix.tile_bytes();
    arguments.product.bias = product.bias;
    arguments.product.y = y;
    arguments.product.first_row = static_cast<uint32_t>(product.first_row);
    arguments.product.rows = static_cast<uint32_t>(product.rows);
    arguments.product.segments = segment_count(matrix.columns());
    arguments.product.n = 1;
    arguments.product.tiles_per_block = plan.tiles_per_block;
    arguments.product.add = product.add;
    arguments.x = x.data();
    arguments.weight = GetParam().source == PackedSource::kNormed ? norm.data() : nullptr;
    arguments.source = GetParam().source;
    arguments.columns = static_cast<uint32_t>(matrix.columns());
    arguments.share_tiles = plan.share_tiles;
    arguments.share_warps = plan.share_warps;
    arguments.token_at = plan.token_at;
    arguments.eps = kEps;
    emulation::launch({emulated_unit(plan.unit), kPackingKernel, order}, {plan.blocks, 1}, plan.threads,
                      plan.shared_bytes, &arguments);
  }
};
INSTANTIATE_TEST_SUITE_P(Every, PackingProduct, testing::ValuesIn(all_cases()), name_of_case);

// On devices that give a block one tile, several for each group of warps, all of them, and more than it has room for.
TEST_P(PackingProduct, HasTheBytesOfSeparateLaunches) {
  const uint64_t columns = GetParam().columns;
  RandomMatrix matrix(GetParam().format, kRows, columns);
  const std::vector<float> x = token(), norm = random_vectors(1, columns, 4);
  const Product product = {.rows = kRows, .y_stride = kRows};
  std::vector<float> expected(kRows);
  multiply_apart(matrix, x, norm, product, expected.data());
  size_t index = 0;
  for (const uint32_t multiprocessors : {1u, 2u, 5u, 132u}) {
    for (const uint32_t shared_bytes : {10u << 10, 227u << 10}) {
      const auto plan = plan_packing({GetParam().format, 0, kRows, columns, 1}, {multiprocessors, true, shared_bytes});
      ASSERT_TRUE(plan.has_value());
      std::vector<float> y(kRows, 12345.0f);
      multiply_packing(*plan, matrix, x, norm, product, y.data(),
                       emulation::kOrders[index++ % emulation::kOrders.size()]);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), kRows * sizeof(float)), 0) << plan->tiles_per_block;
    }
  }
}

// Some rows in the middle of tiles, with a bias, on top of what is there: also of outputs beyond a block's threads.
TEST_P(PackingProduct, WritesWhatIsAskedForAndNothingElse) {
  constexpr uint64_t kFirst = 21, kSome = 203, kBehind = 3;
  const uint64_t columns = GetParam().columns;
  RandomMatrix matrix(GetParam().format, kRows, columns);
  const std::vector<float> x = token(), norm = random_vectors(1, columns, 4), bias = random_vectors(1, kSome, 9);
  for (const uint32_t multiprocessors : {1u, 3u, 132u}) {
    const auto plan = plan_packing({GetParam().format, kFirst, kSome, columns, 1}, {multiprocessors, true, 227 << 10});
    ASSERT_TRUE(plan.has_value());
    for (const bool add : {false, true}) {
      for (const bool has_bias : {false, true}) {
        const Product product = {.first_row = kFirst,
                                 .rows = kSome,
                                 .bias = has_bias ? bias.data() : nullptr,
                                 .add = add,
                                 .y_stride = kSome};
        std::vector<float> expected = random_vectors(1, kSome + kBehind, 10), y = expected;
        multiply_apart(matrix, x, norm, product, expected.data());
        multiply_packing(*plan, matrix, x, norm, product, y.data());
        EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
            << plan->tiles_per_block << (add ? " add" : "") << (has_bias ? " bias" : "");
      }
    }
  }
}

// Shares of other sizes than plans make: more segments than warps, groups without tiles, warps without a group.
TEST_P(PackingProduct, SharesChangeNothing) {
  const uint64_t columns = GetParam().columns;
  RandomMatrix matrix(GetParam().format, kRows, columns);
  const std::vector<float> x = token(), norm = random_vectors(1, columns, 4);
  const Product product = {.rows = kRows, .y_stride = kRows};
  std::vector<float> expected(kRows);
  multiply_apart(matrix, x, norm, product, expected.data());
  PackingPlan plan = *plan_packing({GetParam().format, 0, kRows, columns, 1}, {2, true, 227 << 10});
  ASSERT_EQ(plan.tiles_per_block, 8u);
  for (const auto &[tiles, warps, all] :
       {std::array{1u, 1u, 8u}, {2u, 3u, 13u}, {5u, 2u, 4u}, {6u, 7u, 14u}, {7u, 5u, 16u}, {8u, 1u, 1u}}) {
    plan.share_tiles = tiles;
    plan.share_warps = warps;
    plan.threads = all * 32;
    std::vector<float> y(kRows, 12345.0f);
    multiply_packing(plan, matrix, x, norm, product, y.data(), emulation::kOrders[tiles % emulation::kOrders.size()]);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), kRows * sizeof(float)), 0) << tiles << " tiles, " << warps;
  }
}

}  // namespace
}  // namespace bonsai::cuda
