// Plans name kernels by text: all of them are in the table of what is compiled.
#include <algorithm>

#include "plugins/cuda/compile/units.h"
#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

void expect_compiled(const std::string &unit_name, const std::string &kernel) {
  const Unit &unit = find_unit(units(), unit_name);
  EXPECT_TRUE(std::any_of(unit.hot.begin(), unit.hot.end(), [&](const HotKernel &hot) { return hot.name == kernel; }))
      << "unit " << unit_name << " does not hold registers of " << kernel << " to account";
}

TEST(PlannedKernels, AreInTheTableOfUnits) {
  for (const Format format : all_formats()) {
    for (const bool has_bit_mma : {false, true}) {
      const MatmulDevice device = {132, has_bit_mma};
      const std::vector<std::string> prepared = matmul_units(format, device);
      for (const uint64_t n : {1, 2, 3, 4, 5, 9, 16, 17, 32, 33, 64, 65, 512}) {
        for (const uint64_t rows : {4096, 24576}) {
          for (const uint64_t columns : {4096, 12288}) {
            const MatmulPlan plan = plan_matmul({format, 0, rows, columns, n}, device);
            EXPECT_NE(std::find(prepared.begin(), prepared.end(), plan.unit), prepared.end())
                << plan.unit << " would be compiled in the middle of a call";
            expect_compiled(plan.unit, plan.kernel);
            const MatrixLayout &layout = matrix_layout(format);
            EXPECT_TRUE(plan.kernel != "matmul_decode" || has_decode(layout)) << plan.unit;
            EXPECT_TRUE(plan.kernel != "matmul_decode_16" || has_decode_16(layout)) << plan.unit;
            EXPECT_TRUE(plan.kernel != "matmul_decode_32" || has_decode_32(layout)) << plan.unit;
          }
        }
      }
    }
    const MatmulDevice hopper = {132, true};
    const std::vector<std::string> prepared = matmul_units(format, hopper);
    if (const auto plan = plan_gated({format, 0, 24576, 4096, 1}, hopper)) {
      EXPECT_NE(std::find(prepared.begin(), prepared.end(), plan->unit), prepared.end()) << plan->kernel;
      expect_compiled(plan->unit, plan->kernel);
    }
    expect_compiled(embedding_unit(format), "embed");
  }
  for (const char *kernel : {"quantize", "rms_norm_quantize", "swiglu_quantize"})
    expect_compiled("activations", kernel);
}

}  // namespace
}  // namespace bonsai::cuda
