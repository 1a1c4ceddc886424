// Whatever call of the driver fails, the plugin says so in one line, gives everything back and does not crash; where
// the failure passes, so does its effect.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/plugins/cuda/fake_driver/fake_support.h"
#include "tests/plugins/cuda/plugin/life.h"

namespace bonsai::test {
namespace {

using fake::control;

// cuda.h's numbers.
constexpr int kInvalidValue = 1, kOutOfMemory = 2, kIllegalAddress = 700;

class CudaFailures : public testing::Test {
 public:
  // The platform's own calls, which a process makes once, are not among those that are counted.
  static void SetUpTestSuite() {
    uint32_t count = 0;
    bonsai_error error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(plugin_api().device_count(&count, &error), BONSAI_OK);
    ASSERT_EQ(count, 1u) << error.message;
  }
  void SetUp() override { control().reset(); }
  void TearDown() override {
    control().run_kernels(1);
    control().reset();
  }

  // How many calls a life takes that nothing befalls, and how much work.
  struct Extent {
    uint64_t calls, work;
  };
  static Extent measure() {
    control().reset();
    Life life(Life::AfterFailure::kStop);
    const Ending ending = life.run();
    EXPECT_EQ(ending.call, "") << ending.message;
    life.end();
    return {control().calls(), control().work()};
  }

  static void expect_told(const Ending &ending, bonsai_status expected) {
    EXPECT_EQ(ending.status, expected) << ending.call << ": " << ending.message;
    EXPECT_EQ(ending.code, ending.status) << ending.call;
    EXPECT_NE(ending.message, "") << ending.call;
    EXPECT_EQ(ending.message.find('\n'), std::string::npos) << ending.message;
  }

  static void expect_all_given_back() {
    fake::expect_nothing_alive();
    EXPECT_EQ(control().misuse(), "");
  }

  // Every call fails in turn, each in a life of its own. Some failures harm nobody (freeing, recording a graph).
  static void fail_every_call(int result, bonsai_status expected) {
    control().run_kernels(0);
    const uint64_t calls = measure().calls;
    uint64_t told = 0;
    for (uint64_t n = 1; n <= calls && !HasFailure(); ++n) {
      SCOPED_TRACE("call " + std::to_string(n));
      control().reset();
      control().fail_call(n, result);
      {
        Life life(Life::AfterFailure::kStop);
        const Ending ending = life.run();
        if (!ending.call.empty()) expect_told(ending, expected);
        told += !ending.call.empty();
        EXPECT_EQ(life.went_on(), std::vector<std::string>());
      }
      expect_all_given_back();
    }
    EXPECT_GE(told, calls / 2);
  }
};

TEST_F(CudaFailures, ALifeLeavesNothing) {
  const Extent extent = measure();
  expect_all_given_back();
  RecordProperty("calls", static_cast<int>(extent.calls));
  RecordProperty("work", static_cast<int>(extent.work));
}

// A driver that loads lazily needs memory then, of which a pass must not find too little.
TEST_F(CudaFailures, NoPassBringsCodeToTheDevice) {
  Life life(Life::AfterFailure::kStop);
  uint64_t of_session = 0;
  life.on_session = [&] { of_session = control().functions(); };
  EXPECT_EQ(life.run().call, "");
  EXPECT_GT(of_session, 0u);
  EXPECT_EQ(control().functions(), of_session);
}

// The lists of blocks lie in memory that is used again for the next link of the chain: the driver may read it late.
TEST_F(CudaFailures, CopiesOfCopiesAreWhatWasCopied) {
  Life life(Life::AfterFailure::kStop);
  ASSERT_EQ(life.run().call, "");
  EXPECT_EQ(life.copied_kv(), life.kv());
}

TEST_F(CudaFailures, EveryCallMayFindTooLittleMemory) { fail_every_call(kOutOfMemory, BONSAI_OUT_OF_MEMORY); }

TEST_F(CudaFailures, EveryCallMayBeRefused) { fail_every_call(kInvalidValue, BONSAI_INTERNAL); }

TEST_F(CudaFailures, EveryCallMayLoseTheDevice) { fail_every_call(kIllegalAddress, BONSAI_DEVICE_LOST); }

TEST_F(CudaFailures, EveryPieceOfWorkMayLoseTheDevice) {
  control().run_kernels(0);
  const uint64_t work = measure().work;
  for (uint64_t n = 1; n <= work && !HasFailure(); ++n) {
    SCOPED_TRACE("work " + std::to_string(n));
    control().reset();
    control().fail_work(n, kIllegalAddress);
    {
      Life life(Life::AfterFailure::kStop);
      const Ending ending = life.run();
      EXPECT_NE(ending.call, "");
      expect_told(ending, BONSAI_DEVICE_LOST);
    }
    expect_all_given_back();
  }
}

// Calls of a life between two that fail.
constexpr uint64_t kAFew = 17;

// A call that failed for want of memory is made again, and the life goes on to the same numbers. Kernels run here.
void make_every_nth_failure_good(uint64_t n_th) {
  Life untroubled(Life::AfterFailure::kStop);
  ASSERT_EQ(untroubled.run().call, "");
  untroubled.end();
  const uint64_t calls = CudaFailures::measure().calls;
  for (uint64_t n = 1; n <= calls && !testing::Test::HasFailure(); n += n_th) {
    SCOPED_TRACE("call " + std::to_string(n));
    control().reset();
    control().fail_call(n, kOutOfMemory);
    {
      Life life(Life::AfterFailure::kAgain);
      const Ending ending = life.run();
      if (!ending.call.empty()) CudaFailures::expect_told(ending, BONSAI_OUT_OF_MEMORY);
      EXPECT_EQ(life.numbers(), untroubled.numbers()) << ending.call << ": " << ending.message;
      EXPECT_EQ(life.kv(), untroubled.kv()) << ending.call << ": " << ending.message;
      EXPECT_EQ(life.went_on(), std::vector<std::string>());
    }
    CudaFailures::expect_all_given_back();
  }
}

TEST_F(CudaFailures, WhatFailedOnceIsMadeGoodByMakingItAgain) { make_every_nth_failure_good(kAFew); }

// In the slow test alone.
TEST_F(CudaFailures, WhateverFailedOnceIsMadeGoodByMakingItAgain) { make_every_nth_failure_good(1); }

// Missing barriers in kernels, and reading what nobody wrote, would show as other bytes.
TEST_F(CudaFailures, BytesDoNotDependOnTheOrderThatThreadsRunIn) {
  Life forward(Life::AfterFailure::kStop);
  ASSERT_EQ(forward.run().call, "");
  for (const uint64_t order : {1, 2, 3}) {
    control().set_order(order);
    Life other(Life::AfterFailure::kStop);
    const Ending ending = other.run();
    EXPECT_EQ(ending.call, "") << ending.message;
    EXPECT_EQ(other.numbers(), forward.numbers()) << order;
    EXPECT_EQ(other.kv(), forward.kv()) << order;
  }
  control().set_order(0);
  EXPECT_EQ(control().misuse(), "");
}

}  // namespace
}  // namespace bonsai::test
