// Streams, events and graphs over the fake driver.
#include <thread>

#include "tests/plugins/cuda/fake_driver/fake_fixture.h"

namespace bonsai::fake {
namespace {

// A number on the device, and pinned memory to send and fetch it.
class FakeStream : public FakeDriver {
 protected:
  void SetUp() override {
    FakeDriver::SetUp();
    ASSERT_EQ(cu->cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    ASSERT_EQ(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    number = allocate(4);
    pinned = allocate_pinned<uint32_t>(2);
    pinned[0] = pinned[1] = 0;
  }
  void TearDown() override {
    control().reset();
    EXPECT_EQ(cu->cuMemFreeHost(pinned), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuMemFree_v2(number), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuEventDestroy_v2(event), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuStreamDestroy_v2(other), CUDA_SUCCESS);
    FakeDriver::TearDown();
  }

  CUresult send(CUstream on) { return cu->cuMemcpyHtoDAsync_v2(number, pinned, 4, on); }
  CUresult fetch(CUstream on) { return cu->cuMemcpyDtoHAsync_v2(pinned + 1, number, 4, on); }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    ASSERT_EQ(cu->cuStreamBeginCapture_v2(stream, mode), CUDA_SUCCESS);
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuGraphDestroy(graph), CUDA_SUCCESS);
    return exec;
  }
  CUgraph end(CUresult expected = CUDA_SUCCESS) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cu->cuStreamEndCapture(stream, &graph), expected);
    EXPECT_EQ(graph != nullptr, expected == CUDA_SUCCESS);
    return graph;
  }

  CUstream other = nullptr;
  CUevent event = nullptr;
  CUdeviceptr number = 0;
  uint32_t *pinned = nullptr;
};

TEST_F(FakeStream, StreamsDoNotWaitForEachOther) {
  pinned[0] = 9;
  EXPECT_EQ(send(other), CUDA_SUCCESS);
  EXPECT_EQ(fetch(stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(pinned[1], 0xFFFFFFFFu);  // what the device held before
  EXPECT_EQ(cu->cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(fetch(stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(pinned[1], 9u);
}

TEST_F(FakeStream, EventsAreReachedWhenWhatIsBeforeThemIsDone) {
  EXPECT_EQ(cu->cuEventSynchronize(event), CUDA_SUCCESS);  // not recorded
  EXPECT_EQ(send(stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(fetch(stream), CUDA_SUCCESS);
  EXPECT_EQ(control().work(), 0u);
  EXPECT_EQ(cu->cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(control().work(), 1u);
}

TEST_F(FakeStream, TimeIsMeasuredBetweenEventsThatAreMadeForIt) {
  CUevent timed[2];
  for (CUevent &one : timed) ASSERT_EQ(cu->cuEventCreate(&one, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuEventRecord(timed[0], stream), CUDA_SUCCESS);
  EXPECT_EQ(send(stream), CUDA_SUCCESS);
  EXPECT_EQ(fetch(stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuEventRecord(timed[1], stream), CUDA_SUCCESS);
  float milliseconds = -1;
  EXPECT_EQ(cu->cuEventElapsedTime_v1(&milliseconds, timed[0], timed[1]), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuEventElapsedTime_v1(&milliseconds, timed[0], timed[1]), CUDA_SUCCESS);
  EXPECT_EQ(milliseconds, 2);
  EXPECT_EQ(cu->cuEventElapsedTime_v1(&milliseconds, event, timed[1]), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(take_misuse(), "cuEventElapsedTime: an event was not recorded, or made without timing\n");
  for (const CUevent one : timed) EXPECT_EQ(cu->cuEventDestroy_v2(one), CUDA_SUCCESS);
}

TEST_F(FakeStream, HandlesAreNotUsedOrDestroyedAgain) {
  CUstream gone;
  ASSERT_EQ(cu->cuStreamCreateWithPriority(&gone, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamDestroy_v2(gone), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamDestroy_v2(gone), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(take_misuse(), "cuStreamDestroy_v2: the stream was destroyed before\n");
  EXPECT_EQ(send(gone), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(take_misuse(), "cuMemcpyHtoDAsync_v2: the stream was destroyed before\n");
  EXPECT_EQ(cu->cuEventRecord(reinterpret_cast<CUevent>(stream), stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(take_misuse(), "cuEventRecord: the event is none of ours\n");
}

TEST_F(FakeStream, TheDefaultStreamIsMisuse) {
  EXPECT_EQ(send(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(take_misuse(), "cuMemcpyHtoDAsync_v2: used the default stream, expected one of the caller's own\n");
}

TEST_F(FakeStream, GraphsRepeatWhatWasRecorded) {
  begin();
  EXPECT_EQ(send(stream), CUDA_SUCCESS);
  EXPECT_EQ(fetch(stream), CUDA_SUCCESS);
  CUgraphExec exec = instantiate(end());
  EXPECT_EQ(cu->cuGraphUpload(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(control().work(), 0u);  // recording is not doing
  for (const uint32_t value : {3, 4}) {
    pinned[0] = value;
    EXPECT_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(pinned[1], value);
  }
  EXPECT_EQ(cu->cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(control().misuse(), "");
}

TEST_F(FakeStream, GraphsDoNotOutliveTheirMemory) {
  const CUdeviceptr gone = allocate(4);
  begin();
  EXPECT_EQ(cu->cuMemsetD8Async(gone, 0, 4, stream), CUDA_SUCCESS);
  CUgraphExec exec = instantiate(end());
  EXPECT_EQ(cu->cuMemFree_v2(gone), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(take_misuse(), "a stream's work: 4 bytes of device memory are the destination, which was freed before\n");
  EXPECT_EQ(cu->cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(FakeStream, EventsOfARecordingAreNotWaitedFor) {
  begin();
  EXPECT_EQ(cu->cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuGraphDestroy(end()), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(take_misuse(), "cuEventSynchronize: the event is in a recording\n");
}

// Each of these spoils the recording.
TEST_F(FakeStream, WhatWaitsOrAllocatesIsMisuseWhileCapturing) {
  const auto expect_illegal = [&](const char *name, auto function) {
    begin();
    EXPECT_EQ(function(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) << name;
    EXPECT_EQ(take_misuse(), std::string(name) + ": not allowed while this thread captures a stream\n");
    EXPECT_EQ(send(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  };
  CUdeviceptr address = 0;
  void *memory = nullptr;
  CUmodule module = load_module();
  const std::string image = make_ptx({"example.cu", "sm_75", 13000});
  expect_illegal("cuMemAlloc_v2", [&] { return cu->cuMemAlloc_v2(&address, 4); });
  expect_illegal("cuMemFree_v2", [&] { return cu->cuMemFree_v2(number); });
  expect_illegal("cuMemHostAlloc", [&] { return cu->cuMemHostAlloc(&memory, 4, 0); });
  expect_illegal("cuMemFreeHost", [&] { return cu->cuMemFreeHost(pinned); });
  expect_illegal("cuStreamSynchronize", [&] { return cu->cuStreamSynchronize(other); });
  expect_illegal("cuEventSynchronize", [&] { return cu->cuEventSynchronize(event); });
  expect_illegal("cuModuleUnload", [&] { return cu->cuModuleUnload(module); });
  expect_illegal("cuModuleLoadDataEx",
                 [&] { return cu->cuModuleLoadDataEx(&module, image.c_str(), 0, nullptr, nullptr); });
  EXPECT_EQ(cu->cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(FakeStream, PageableMemoryIsMisuseWhileCapturing) {
  uint32_t host = 0;
  begin();
  EXPECT_EQ(cu->cuMemcpyHtoDAsync_v2(number, &host, 4, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(take_misuse(), "cuMemcpyHtoDAsync_v2: a copy from or to pageable memory is captured\n");
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(FakeStream, OtherThreadsMayWaitWhileOneCaptures) {
  begin();
  std::thread([&] {
    EXPECT_EQ(cu->cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuStreamSynchronize(other), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    EXPECT_EQ(cu->cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(take_misuse(), "cuStreamEndCapture: the capture was begun by another thread\n");
  EXPECT_EQ(cu->cuGraphDestroy(end()), CUDA_SUCCESS);
}

TEST_F(FakeStream, CapturesBeginOnceAndEndOnce) {
  begin();
  EXPECT_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(take_misuse(), "cuStreamBeginCapture_v2: the stream is being captured already\n");
  EXPECT_EQ(control().alive().captures, 1u);
  EXPECT_EQ(cu->cuGraphDestroy(end()), CUDA_SUCCESS);
  end(CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(take_misuse(), "cuStreamEndCapture: no capture was begun on the stream\n");
}

}  // namespace
}  // namespace bonsai::fake
