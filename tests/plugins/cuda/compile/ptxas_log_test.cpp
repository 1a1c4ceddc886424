// The test of registers and spills reads what ptxas says.
#include "tests/plugins/cuda/compile/ptxas_log.h"

#include <gtest/gtest.h>

namespace bonsai::cuda {
namespace {

TEST(PtxasLog, TellsRegistersAndSpillsOfEachKernel) {
  const auto kernels = read_ptxas_log(
      "ptxas info    : 5 bytes gmem\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
      "ptxas info    : Function properties for first\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 10 registers, used 0 barriers, 376 bytes cmem[0]\n"
      "ptxas info    : Compile time = 8.670 ms\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
      "ptxas info    : Function properties for second\n"
      "    16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels.at("first").registers, 10);
  EXPECT_EQ(kernels.at("first").spill_bytes, 0);
  EXPECT_EQ(kernels.at("second").registers, 255);
  EXPECT_EQ(kernels.at("second").spill_bytes, 32);
}

TEST(PtxasLog, OfNothingIsNothing) { EXPECT_TRUE(read_ptxas_log("").empty()); }

}  // namespace
}  // namespace bonsai::cuda
