// Weights are packed the same way whatever floating-point environment the host has given to oneTBB's threads, and
// whether or not it has any.
#include <gtest/gtest.h>
#include <tbb/parallel_for.h>

#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include "tests/base/refuse_threads.h"
#include "tests/plugins/cuda/fake_driver/fake_support.h"
#include "tools/plugin-check/context.h"
#include "tools/plugin-check/matrix.h"
#include "tools/plugin-check/product.h"

namespace bonsai::test {
namespace {

constexpr uint64_t kRows = 256, kColumns = 512;

// One large weight a row, and small ones, whose halves are subnormal: those are rounded by the processor.
std::vector<float> small_weights(check::Random &random) {
  std::vector<float> weights =
      check::make_matrix(quant::Format::kF32, kRows, kColumns, check::Pattern::kRandom, random).weights;
  for (uint64_t i = 0; i < weights.size(); ++i) weights[i] = i % kColumns == 0 ? 1 : std::ldexp(weights[i], -12);
  return weights;
}

// Their product, as the device has it.
std::vector<float> product() {
  check::Random random(7);
  const std::vector<float> weights = small_weights(random);
  std::vector<float> x = check::make_vectors(1, kColumns, check::VectorPattern::kRandom, random);
  x[0] = 0;
  check::Context context({.path = BONSAI_CUDA_PLUGIN, .device = 0, .options = {}});
  const host::Weight::Part part = {.dtype = BONSAI_DTYPE_F32, .rows = kRows, .data = std::as_bytes(std::span(weights))};
  const host::Weight weight =
      check::value_of(host::Weight::upload(context.device(), "w", kColumns, {&part, 1}, BONSAI_USE_MATRIX, false));
  return check::product(context.device(), weight, kRows, x);
}

// The same of a thread that has used oneTBB before while it rounded in `rounding`, which is kept with its arena.
std::vector<float> product_behind(int rounding) {
  std::vector<float> y;
  std::thread([&] {
    std::fesetround(rounding);
    tbb::parallel_for(0, 100, [](int) {});
    std::fesetround(FE_TONEAREST);
    y = product();
  }).join();
  return y;
}

TEST(CudaUpload, PacksInTheDefaultFloatingPointEnvironment) {
  const std::vector<float> expected = product_behind(FE_TONEAREST);
  EXPECT_EQ(product_behind(FE_UPWARD), expected);
  EXPECT_EQ(product_behind(FE_TOWARDZERO), expected);
}

TEST(CudaUpload, PacksWhereTheSystemRefusesThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto multiply = [] {
    refuse_threads();
    std::_Exit(product().size() == kRows ? 0 : 1);
  };
  EXPECT_EXIT(multiply(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai::test
