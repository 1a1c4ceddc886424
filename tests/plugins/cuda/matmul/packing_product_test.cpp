// Products that norm or gate and pack their token themselves, against the same in separate launches.
#include <cstring>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

constexpr uint64_t kRows = 53;  // four tiles, the last of five rows
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
      for (const uint64_t columns : {128, 768, 4608}) cases.push_back({format, source, columns});
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

  std::vector<float> multiply_packing(const MatmulPlan &plan, RandomMatrix &matrix, const std::vector<float> &x,
                                      const std::vector<float> &norm, const emulation::Order &order) const {
    std::vector<float> y(kRows, 12345.0f);
    PackingMatmulArguments arguments = {};
    arguments.product.weights = matrix.pack();
    arguments.product.tile_bytes = matrix.tile_bytes();
    arguments.product.y = y.data();
    arguments.product.rows = kRows;
    arguments.product.segments = segment_count(matrix.columns());
    arguments.product.n = 1;
    arguments.product.tiles_per_block = plan.tiles_per_block;
    arguments.x = x.data();
    arguments.weight = GetParam().source == PackedSource::kNormed ? norm.data() : nullptr;
    arguments.source = GetParam().source;
    arguments.columns = static_cast<uint32_t>(matrix.columns());
    arguments.shared_bytes = plan.shared_bytes;
    arguments.eps = kEps;
    emulation::launch({emulated_unit(plan.unit), plan.kernel + "_packing", order}, {plan.grid_x, 1}, plan.threads,
                      plan.shared_bytes + packing_shared_bytes(arguments.product.segments), &arguments);
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(Every, PackingProduct, testing::ValuesIn(all_cases()), name_of_case);

TEST_P(PackingProduct, HasTheBytesOfSeparateLaunches) {
  const uint64_t columns = GetParam().columns;
  RandomMatrix matrix(GetParam().format, kRows, columns);
  const std::vector<float> x = token(), norm = random_vectors(1, columns, 4);
  for (const uint32_t multiprocessors : {1u, 132u}) {
    const MatmulPlan plan = plan_matmul({GetParam().format, 0, kRows, columns, 1}, {multiprocessors, true, 48 << 10});
    ASSERT_TRUE(may_pack(plan, columns, kTestDevice));
    std::vector<float> expected(kRows);
    run_matmul(plan, matrix, matrix.pack(), packed_apart(x, norm), 1, {.rows = kRows, .y_stride = kRows},
               expected.data());
    for (const emulation::Order &order : emulation::kOrders) {
      const std::vector<float> y = multiply_packing(plan, matrix, x, norm, order);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), kRows * sizeof(float)), 0) << plan.tiles_per_block;
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
