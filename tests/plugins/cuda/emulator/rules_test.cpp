// What CUDA leaves undefined is a failure with a message, or shows as other bytes in another order.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/emulator/example_arguments.h"

namespace bonsai::emulation {
namespace {

using cuda::ExampleArguments;

constexpr size_t kWords = 256;

struct Words {
  alignas(16) uint32_t in[kWords], out[kWords];
  Words() {
    for (uint32_t i = 0; i < kWords; ++i) in[i] = i, out[i] = 0;
  }
  ExampleArguments arguments(unsigned n = 0) { return {in, out, n}; }
};

// The message with its line numbers replaced by LINE.
std::string without_lines(const std::string &message) {
  constexpr std::string_view kBefore = ".cu:", kDigits = "0123456789";
  std::string text;
  for (size_t i = 0; i < message.size();) {
    const size_t end = std::min(message.find_first_not_of(kDigits, i), message.size());
    if (end > i && text.ends_with(kBefore)) {
      text += "LINE";
      i = end;
    } else {
      text += message[i++];
    }
  }
  return text;
}

// The message that `run` fails with.
template <class Run>
std::string failure_of(Run run) {
  try {
    run();
  } catch (const Failure &failure) {
    return without_lines(failure.what());
  }
  return "no failure";
}

std::string failure_of_kernel(const char *kernel, unsigned block_threads, const Order &order = {}) {
  Words words;
  const ExampleArguments arguments = words.arguments();
  return failure_of([&] { launch({"broken.cu", kernel, order}, {2}, block_threads, 1024, &arguments); });
}

class RulesInEveryOrder : public testing::TestWithParam<Order> {};
INSTANTIATE_TEST_SUITE_P(EmulatorRules, RulesInEveryOrder, testing::ValuesIn(kOrders),
                         [](const auto &order) { return std::to_string(order.index); });

TEST_P(RulesInEveryOrder, LanesThatStayAwayAreNamed) {
  const std::string message = failure_of_kernel("half_a_warp", 64, GetParam());
  EXPECT_TRUE(
      message.ends_with("warp 1: lanes 0 to 15 at shuffle (broken.cu:LINE); lanes 16 to 31 at the kernel's "
                        "end, expected all of the warp at one place"))
      << message;
}

TEST(EmulatorRules, FailuresNameUnitKernelBlockAndWarp) {
  EXPECT_EQ(failure_of_kernel("half_a_warp", 64),
            "broken.cu: half_a_warp, block (0, 0, 0): warp 1: lanes 0 to 15 at shuffle (broken.cu:LINE); lanes 16 to "
            "31 at the kernel's end, expected all of the warp at one place");
  EXPECT_EQ(failure_of_kernel("half_a_warp", 64, {Order::Kind::kBackward}).substr(0, 43),
            "broken.cu: half_a_warp, block (1, 0, 0): wa");
}

TEST_P(RulesInEveryOrder, LanesOnTwoWaysAreNamed) {
  const std::string message = failure_of_kernel("two_ways", 32, GetParam());
  EXPECT_TRUE(
      message.ends_with("warp 0: lanes 0 to 2, 4 to 31 at ballot (broken.cu:LINE); lanes 3 at sync_warp "
                        "(broken.cu:LINE), expected all of the warp at one place"))
      << message;
}

TEST_P(RulesInEveryOrder, OneCollectiveAtTwoPlacesFails) {
  const std::string message = failure_of_kernel("two_places", 32, GetParam());
  EXPECT_TRUE(
      message.ends_with("warp 0: lanes 0 to 29 at sync_warp (broken.cu:LINE); lanes 30 to 31 at sync_warp "
                        "(broken.cu:LINE), expected all of the warp at one place"))
      << message;
}

TEST_P(RulesInEveryOrder, WarpsThatReturnBeforeABarrierAreNamed) {
  const std::string message = failure_of_kernel("early_return", 96, GetParam());
  EXPECT_TRUE(
      message.ends_with(": warps 0, 2 at sync_block (broken.cu:LINE); warps 1 at the kernel's end, expected "
                        "all of the block at one place"))
      << message;
}

TEST_P(RulesInEveryOrder, WarpsAtTwoBarriersAreNamed) {
  const std::string message = failure_of_kernel("two_barriers", 64, GetParam());
  EXPECT_TRUE(
      message.ends_with(": warps 0 at sync_block (broken.cu:LINE); warps 1 at sync_block (broken.cu:LINE), "
                        "expected all of the block at one place"))
      << message;
}

TEST(EmulatorRules, LoopsWithoutEndFail) {
  EXPECT_EQ(failure_of_kernel("endless", 32),
            "broken.cu: endless, block (0, 0, 0): no end after 1000000 steps of its warps");
}

TEST(EmulatorRules, MasksBeyondTheWarpFail) {
  EXPECT_EQ(failure_of_kernel("wide_mask", 32),
            "broken.cu: wide_mask, block (0, 0, 0): warp 0, lane 0: shuffle_xor with mask 32, expected less than 32");
}

TEST(EmulatorRules, MisalignedAccessesFail) {
  EXPECT_EQ(failure_of_kernel("misaligned_load", 32),
            "broken.cu: misaligned_load, block (0, 0, 0): warp 0, lane 0: load_streaming: the address is 4 beyond a "
            "multiple of 16");
  EXPECT_EQ(failure_of_kernel("misaligned_copy", 32),
            "broken.cu: misaligned_copy, block (0, 0, 0): warp 0, lane 0: copy_async to shared memory: the address is "
            "8 beyond a multiple of 16");
}

TEST(EmulatorRules, CopiesGoFromGlobalToSharedMemory) {
  EXPECT_EQ(failure_of_kernel("copy_to_global", 32),
            "broken.cu: copy_to_global, block (0, 0, 0): warp 0, lane 0: copy_async: the destination is not in the "
            "block's shared memory");
  EXPECT_EQ(failure_of_kernel("copy_from_shared", 32),
            "broken.cu: copy_from_shared, block (0, 0, 0): warp 0, lane 0: copy_async: the source is in shared memory, "
            "expected global memory");
}

TEST(EmulatorRules, AFailureLeavesTheMachineUsable) {
  ASSERT_NE(failure_of_kernel("early_return", 96), "no failure");
  Words words;
  const ExampleArguments arguments = words.arguments(64);
  launch({"example.cu", "add_index"}, {1}, 96, 0, &arguments);
  for (uint32_t i = 0; i < 96; ++i) EXPECT_EQ(words.out[i], i < 64 ? 2 * i : 0);
}

TEST(EmulatorRulesDeathTest, WritingBeyondDynamicSharedMemoryStopsTheProgram) {
  Words words;
  const ExampleArguments within = words.arguments(255), beyond = words.arguments(256);
  launch({"broken.cu", "overflow"}, {1}, 32, 1024, &within);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr const char *kMessage = "";
#else
  constexpr const char *kMessage =
      "broken.cu: overflow, block .0, 0, 0., thread 0: an access to 0x[0-9a-f]+000, which is not its memory";
#endif
  EXPECT_DEATH(launch({"broken.cu", "overflow"}, {1}, 32, 1024, &beyond), kMessage);
}

// How many different outputs the orders have.
size_t outputs_of(const char *kernel, unsigned block_threads) {
  std::set<std::vector<uint32_t>> outputs;
  for (const Order &order : kOrders) {
    Words words;
    const ExampleArguments arguments = words.arguments();
    launch({"broken.cu", kernel, order}, {2}, block_threads, 1024, &arguments);
    outputs.insert(std::vector<uint32_t>(words.out, words.out + kWords));
  }
  return outputs.size();
}

TEST(EmulatorRules, MissingSynchronisationShowsAsOtherBytesInAnotherOrder) {
  EXPECT_GT(outputs_of("no_barrier", 64), 1u);
  EXPECT_GT(outputs_of("no_warp_barrier", 32), 1u);
  EXPECT_GT(outputs_of("uninitialised", 32), 1u);
  EXPECT_GT(outputs_of("no_wait", 32), 1u);
  EXPECT_GT(outputs_of("copy_too_early", 32), 1u);
  EXPECT_GT(outputs_of("store_beside_a_copy", 512), 1u);
  EXPECT_GT(outputs_of("ordered_blocks", 32), 1u);
}

std::string failure_of_launch(const Grid &grid, unsigned block_threads, size_t shared_bytes) {
  Words words;
  const ExampleArguments arguments = words.arguments();
  return failure_of([&] { launch({"example.cu", "add_index"}, grid, block_threads, shared_bytes, &arguments); });
}

TEST(EmulatorRules, LaunchesThatADriverRefusesFail) {
  EXPECT_EQ(failure_of_launch({1}, 288, 0),
            "example.cu: add_index: launched with blocks of 288 threads, expected 1 to 256");
  EXPECT_EQ(failure_of_launch({1}, 0, 0),
            "example.cu: add_index: launched with blocks of 0 threads, expected 1 to 256");
  EXPECT_EQ(failure_of_launch({1}, 48, 0),
            "example.cu: add_index: launched with blocks of 48 threads, expected a multiple of 32");
  EXPECT_EQ(failure_of_launch({1, 65'536}, 32, 0),
            "example.cu: add_index: launched with a grid of (1, 65536, 1), expected 1 to (2147483647, 65535, 65535)");
  EXPECT_EQ(failure_of_launch({0}, 32, 0),
            "example.cu: add_index: launched with a grid of (0, 1, 1), expected 1 to (2147483647, 65535, 65535)");
  EXPECT_EQ(failure_of_launch({1}, 32, 232'448),
            "example.cu: add_index: launched with 232448 bytes of shared memory beside 32 of its unit's own, expected "
            "232448 at the most");
}

TEST(EmulatorRules, KernelsAreFoundByUnitAndNameAndTakeTheirArguments) {
  const unsigned other = 0;
  EXPECT_EQ(failure_of([&] {
              launch({"other.cu", "add_index"}, {1}, 32, 0, &other);
            }),
            "no kernel add_index of unit other.cu is linked here");
  EXPECT_EQ(failure_of([&] {
              launch({"example.cu", "add_index"}, {1}, 32, 0, &other);
            }),
            "example.cu: add_index: launched with arguments of 4 bytes, expected 24");
}

}  // namespace
}  // namespace bonsai::emulation
