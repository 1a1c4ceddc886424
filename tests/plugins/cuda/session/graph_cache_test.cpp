// Shapes that come back are recorded, and keep their recordings whatever else comes; nothing waits for the device
// without need.
#include "plugins/cuda/graph_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plugins/cuda/driver/fake_functions.h"

namespace bonsai::cuda {
namespace {

class GraphCaches : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(fake_.bad_frees, 0); }

  // Whether a pass of this shape was launched from a recording.
  bool replays(uint32_t shape) {
    const long before = count("cuGraphLaunch");
    const auto pass = [this] { ++passes_; };
    cache_.run({shape}, pass, [this](const std::string &) { return simplify(); });
    return count("cuGraphLaunch") > before;
  }
  // Runs each shape twice, so that all are recorded.
  void record(uint32_t first, uint32_t end) {
    for (uint32_t shape = first; shape < end; ++shape) {
      EXPECT_FALSE(replays(shape)) << shape;
      EXPECT_TRUE(replays(shape)) << shape;
    }
  }
  bool simplify() {
    ++simplified_;
    if (!plainer_helps_) return false;
    fake_.result = CUDA_SUCCESS;
    return true;
  }
  long count(const std::string &call) const { return std::count(fake_.calls.begin(), fake_.calls.end(), call); }
  long recorded() const { return count("cuGraphInstantiateWithFlags"); }
  long waits() const { return count("cuStreamSynchronize"); }

  FakeDriver fake_;
  Context context_{fake_.driver, 0};
  CurrentContext current_{context_};
  Stream stream_{context_};
  std::vector<std::string> lines_;
  bool plainer_helps_ = false;
  int simplified_ = 0;
  GraphCache cache_{stream_, true, [this](bonsai_log_level, const std::string &line) { lines_.push_back(line); }};
  uint32_t passes_ = 0;
};

constexpr uint32_t kMost = GraphCache::kMostGraphs;

TEST_F(GraphCaches, RecordTheSecondPassAndLaunchLaterOnes) {
  EXPECT_FALSE(replays(1));
  EXPECT_TRUE(replays(1));
  EXPECT_TRUE(replays(1));
  EXPECT_EQ(passes_, 2u);
  EXPECT_EQ(recorded(), 1);
}

TEST_F(GraphCaches, ShapesThatComeOnceCostNoRecordingAndNoWaiting) {
  record(0, kMost);
  for (uint32_t shape = 1000; shape < 1200; ++shape) EXPECT_FALSE(replays(shape));
  for (uint32_t shape = 0; shape < kMost; ++shape) EXPECT_TRUE(replays(shape)) << shape;
  EXPECT_EQ(recorded(), kMost);
  EXPECT_EQ(waits(), 0);
}

// Its graph may still be running.
TEST_F(GraphCaches, TheRecordingThatRanLongestAgoMakesRoomAfterTheDeviceHasRunIt) {
  record(0, kMost);
  EXPECT_TRUE(replays(0));
  record(100, 101);
  EXPECT_EQ(waits(), 1);
  EXPECT_EQ(count("cuGraphExecDestroy"), 1);
  EXPECT_TRUE(replays(0));
  EXPECT_FALSE(replays(1));
}

TEST_F(GraphCaches, ShapesAreForgottenThatCameOnceLongAgo) {
  EXPECT_FALSE(replays(1));
  for (uint32_t shape = 1000; shape < 1000 + GraphCache::kMostSeen; ++shape) EXPECT_FALSE(replays(shape));
  EXPECT_FALSE(replays(1));
  EXPECT_TRUE(replays(1));
}

TEST_F(GraphCaches, PassesThatCannotBeRecordedAreSubmittedFromThenOn) {
  fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_.failing = "cuGraphInstantiateWithFlags";
  EXPECT_FALSE(replays(1));
  EXPECT_FALSE(replays(1));
  fake_.result = CUDA_SUCCESS;
  EXPECT_FALSE(replays(1));
  EXPECT_EQ(passes_, 4u);  // one of them was being recorded
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0],
            "cuda: this session's decode steps run without graphs from now on: one could not be made or run: "
            "device memory, of a size that the driver does not say: cuGraphInstantiateWithFlags: "
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  EXPECT_EQ(simplified_, 0);  // memory is no matter of how a pass is submitted
}

// Drivers may find out late that there is no memory for a recording.
TEST_F(GraphCaches, PassesWhoseRecordingsDoNotRunAreSubmittedFromThenOn) {
  for (const char *call : {"cuGraphUpload", "cuGraphLaunch"}) {
    GraphCache cache{stream_, true, [this](bonsai_log_level, const std::string &line) { lines_.push_back(line); }};
    passes_ = 0;
    lines_.clear();
    fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
    fake_.failing = call;
    for (int i = 0; i < 3; ++i) cache.run({1}, [this] { ++passes_; });
    EXPECT_EQ(passes_, 4u) << call;  // one of them was being recorded
    ASSERT_EQ(lines_.size(), 1u) << call;
    EXPECT_NE(lines_[0].find(call), std::string::npos) << lines_[0];
    fake_.result = CUDA_SUCCESS;
  }
}

// A device may have memory for a recording at first, and less later.
TEST_F(GraphCaches, PassesWhoseRecordingsRunNoMoreForWantOfMemoryAreSubmittedFromThenOn) {
  record(0, 3);
  passes_ = 0;
  fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_.failing = "cuGraphLaunch";
  fake_.failures = 1;
  cache_.run({1}, [this] { ++passes_; });
  EXPECT_EQ(passes_, 1u);
  EXPECT_EQ(count("cuGraphExecDestroy"), 3);
  EXPECT_EQ(waits(), 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(replays(1));
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(GraphCaches, WhatElseFailsOfARecordingIsToldAndSubmitsNothing) {
  record(1, 2);
  passes_ = 0;
  fake_.result = CUDA_ERROR_ILLEGAL_ADDRESS;
  fake_.failing = "cuGraphLaunch";
  EXPECT_THROW(cache_.run({1}, [this] { ++passes_; }), plugin::Failure);
  EXPECT_EQ(passes_, 0u);
}

TEST_F(GraphCaches, PassesWhoseRecordingsDoNotRunAreRecordedOnceMoreWhereTheyCanBePlainer) {
  fake_.result = CUDA_ERROR_INVALID_VALUE;
  fake_.failing = "cuGraphUpload";
  plainer_helps_ = true;
  EXPECT_FALSE(replays(1));
  EXPECT_TRUE(replays(1));
  EXPECT_EQ(simplified_, 1);
  EXPECT_TRUE(lines_.empty());
}

// Launches that may start early, for one, are not every driver's to record.
TEST_F(GraphCaches, PassesAreRecordedOnceMoreWhereTheyCanBePlainer) {
  fake_.result = CUDA_ERROR_INVALID_VALUE;
  fake_.failing = "cuStreamEndCapture";
  plainer_helps_ = true;
  EXPECT_FALSE(replays(1));
  EXPECT_TRUE(replays(1));
  EXPECT_TRUE(replays(1));
  EXPECT_EQ(simplified_, 1);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(GraphCaches, TheRecordingThatRanLongestAgoIsGivenUpForMemory) {
  record(0, 3);
  fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_.failing = "cuGraphInstantiateWithFlags";
  fake_.failures = 1;
  EXPECT_FALSE(replays(7));
  EXPECT_TRUE(replays(7));
  EXPECT_EQ(waits(), 1);  // it may still be running
  EXPECT_EQ(count("cuGraphExecDestroy"), 1);
  EXPECT_TRUE(replays(1));
  EXPECT_TRUE(replays(2));
  EXPECT_FALSE(replays(0));
  EXPECT_TRUE(replays(0));
  EXPECT_TRUE(lines_.empty());
}

// A device that lacks memory has no use for graphs that lie there.
TEST_F(GraphCaches, AllRecordingsAreGivenUpWhereOneIsNotEnoughMemory) {
  record(0, 3);
  fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_.failing = "cuGraphInstantiateWithFlags";
  fake_.failures = 2;
  EXPECT_FALSE(replays(7));
  EXPECT_FALSE(replays(7));
  EXPECT_EQ(count("cuGraphExecDestroy"), 3);
  EXPECT_EQ(waits(), 2);
  for (uint32_t shape = 0; shape < 3; ++shape) EXPECT_FALSE(replays(shape)) << shape;
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(GraphCaches, RecordingsThatWorkGoOnWhereAnotherPassCannotBeRecorded) {
  record(0, 3);
  fake_.result = CUDA_ERROR_INVALID_VALUE;
  fake_.failing = "cuStreamEndCapture";
  EXPECT_FALSE(replays(7));
  EXPECT_FALSE(replays(7));
  EXPECT_EQ(lines_.size(), 1u);
  for (uint32_t shape = 0; shape < 3; ++shape) EXPECT_TRUE(replays(shape)) << shape;
  EXPECT_FALSE(replays(7));
}

TEST_F(GraphCaches, PassesThatCannotBePlainerAreSubmitted) {
  fake_.result = CUDA_ERROR_INVALID_VALUE;
  fake_.failing = "cuStreamEndCapture";
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(replays(1));
  EXPECT_EQ(simplified_, 1);
  EXPECT_EQ(lines_.size(), 1u);
}

}  // namespace
}  // namespace bonsai::cuda
