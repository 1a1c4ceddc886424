// Contexts, streams, events and graphs are released once, with their context current, also when the device is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plugins/cuda/driver/graph.h"
#include "tests/plugins/cuda/driver/fake_functions.h"

namespace bonsai::cuda {
namespace {

class DriverHandles : public testing::Test {
 protected:
  void SetUp() override { current_.emplace(*context_); }
  void TearDown() override {
    current_.reset();
    context_.reset();
    EXPECT_TRUE(fake_.alive.empty());
    EXPECT_EQ(fake_.bad_frees, 0);
    EXPECT_EQ(fake_.pushed, 0);
    EXPECT_EQ(fake_.retained, 0);
  }

  void fail_from_now(CUresult result, const std::string &call = "") {
    fake_.result = result;
    fake_.failing = call;
  }
  long count(const std::string &call) const { return std::count(fake_.calls.begin(), fake_.calls.end(), call); }

  FakeDriver fake_;
  std::optional<Context> context_{std::in_place, fake_.driver, 0};
  std::optional<CurrentContext> current_;
};

TEST_F(DriverHandles, ContextThatCannotBeRetainedIsNotReleased) {
  fail_from_now(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THROW(Context(fake_.driver, 1), Failure);
  EXPECT_EQ(fake_.retained, 1);  // the fixture's
}

TEST_F(DriverHandles, SynchronizeThrowsWhatFailed) {
  const Stream stream(*context_);
  const Event event(*context_);
  fail_from_now(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THROW(stream.synchronize(), Failure);
  EXPECT_THROW(event.synchronize(), Failure);
}

TEST_F(DriverHandles, AreDestroyedWithTheirContextCurrent) {
  std::optional<Stream> stream(std::in_place, *context_);
  std::optional<Event> event(std::in_place, *context_);
  current_.reset();
  stream.reset();
  event.reset();
  EXPECT_EQ(fake_.bad_frees, 0);
  EXPECT_TRUE(fake_.alive.empty());
}

TEST_F(DriverHandles, AreDestroyedOnceWhereTheyMove) {
  Stream a(*context_);
  Stream b = std::move(a);
  Stream c(*context_);
  c = std::move(b);
  EXPECT_EQ(fake_.alive.size(), 1u);
  EXPECT_EQ(count("cuStreamDestroy_v2"), 1);
}

TEST_F(DriverHandles, AreDestroyedOnALostDevice) {
  {
    const Stream stream(*context_);
    const Event event(*context_);
    fail_from_now(CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  EXPECT_TRUE(fake_.alive.empty());
}

TEST_F(DriverHandles, WhatCouldNotBeMadeIsNotDestroyed) {
  fail_from_now(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THROW(Stream{*context_}, Failure);
  EXPECT_THROW(Event{*context_}, Failure);
  EXPECT_EQ(count("cuStreamDestroy_v2") + count("cuEventDestroy_v2"), 0);
}

TEST_F(DriverHandles, NoBytesAreNotCopied) {
  const Stream stream(*context_);
  fail_from_now(CUDA_ERROR_INVALID_VALUE);
  stream.upload(nullptr, nullptr, 0);
  stream.download(nullptr, nullptr, 0);
  stream.copy(nullptr, nullptr, 0);
  stream.fill(nullptr, 0, 0);
}

TEST_F(DriverHandles, CopiesThrowWhatFails) {
  const Stream stream(*context_);
  fail_from_now(CUDA_ERROR_INVALID_VALUE);
  char byte = 0;
  EXPECT_THROW(stream.upload(&byte, &byte, 1), Failure);
  EXPECT_THROW(stream.download(&byte, &byte, 1), Failure);
  EXPECT_THROW(stream.copy(&byte, &byte, 1), Failure);
  EXPECT_THROW(stream.fill(&byte, 0, 1), Failure);
}

TEST_F(DriverHandles, TimeBetweenEventsIsInSeconds) {
  const Event first(*context_, Event::Timing::kOn), second(*context_, Event::Timing::kOn);
  EXPECT_EQ(second.seconds_since(first), 1.5);
}

TEST_F(DriverHandles, CaptureMakesAGraphThatRuns) {
  const Stream stream(*context_);
  Capture capture(stream);
  EXPECT_TRUE(fake_.is_capturing);
  const Graph graph = capture.finish();
  EXPECT_FALSE(fake_.is_capturing);
  const GraphExec exec(graph);
  exec.upload(stream);
  exec.launch(stream);
  EXPECT_EQ(fake_.alive.size(), 3u);
}

TEST_F(DriverHandles, ExceptionEndsACapture) {
  const Stream stream(*context_);
  try {
    const Capture capture(stream);
    throw Failure(BONSAI_INTERNAL, "in between");
  } catch (const Failure &) {
  }
  EXPECT_FALSE(fake_.is_capturing);
  EXPECT_EQ(fake_.alive.size(), 1u);  // the stream, and no graph
}

TEST_F(DriverHandles, CaptureThatWasSpoiltMakesNoGraph) {
  const Stream stream(*context_);
  fail_from_now(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamEndCapture");
  EXPECT_THROW(Capture(stream).finish(), Failure);
  EXPECT_EQ(count("cuStreamEndCapture"), 1);
}

TEST_F(DriverHandles, GraphThatCannotBeInstantiatedIsNotDestroyedTwice) {
  const Stream stream(*context_);
  const Graph graph = Capture(stream).finish();
  fail_from_now(CUDA_ERROR_OUT_OF_MEMORY, "cuGraphInstantiateWithFlags");
  EXPECT_THROW(GraphExec{graph}, Failure);
  EXPECT_EQ(count("cuGraphExecDestroy"), 0);
}

}  // namespace
}  // namespace bonsai::cuda
