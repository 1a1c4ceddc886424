// The fake driver's functions with a context, a stream and a kernel, for the tests of the fake itself.
#pragma once

#include <vector>

#include "plugins/cuda/driver/driver.h"
#include "tests/plugins/cuda/fake_driver/fake_support.h"
#include "tests/plugins/cuda/fake_driver/image.h"

#include "tests/plugins/cuda/emulator/example_arguments.h"

namespace bonsai::fake {

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    control().reset();
    const cuda::DriverResult result = cuda::load_driver({.libraries = {BONSAI_FAKE_CUDA}, .control_node = ""});
    ASSERT_TRUE(result.driver) << result.reason;
    cu = result.driver;
    ASSERT_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cu->cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    ASSERT_EQ(cu->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  }

  void TearDown() override {
    control().reset();
    EXPECT_EQ(cu->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    CUcontext popped;
    EXPECT_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    EXPECT_EQ(control().misuse(), "");
    expect_nothing_alive();
  }

  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu->cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
    return address;
  }
  template <class T>
  T *allocate_pinned(size_t n) {
    void *memory = nullptr;
    EXPECT_EQ(cu->cuMemHostAlloc(&memory, n * sizeof(T), 0), CUDA_SUCCESS);
    return static_cast<T *>(memory);
  }

  CUmodule load_module(const char *unit = "example.cu") {
    CUmodule module = nullptr;
    const std::string image = make_ptx({unit, "sm_75", 13000});
    EXPECT_EQ(cu->cuModuleLoadDataEx(&module, image.c_str(), 0, nullptr, nullptr), CUDA_SUCCESS);
    return module;
  }
  CUfunction find_function(CUmodule module, const char *name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cu->cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
  }
  CUresult launch(CUfunction function, const cuda::ExampleArguments &arguments, unsigned threads = 32,
                  unsigned shared_bytes = 0) {
    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shared_bytes;
    config.hStream = stream;
    void *parameters[] = {const_cast<cuda::ExampleArguments *>(&arguments)};
    return cu->cuLaunchKernelEx(&config, function, parameters, nullptr);
  }

  // What was done wrong since the last time, and forgets it.
  std::string take_misuse() {
    const std::string misuse = control().misuse();
    control().reset();
    return misuse;
  }

  std::shared_ptr<const cuda::Driver> cu;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

template <class T>
T *on_device(CUdeviceptr address) {
  return reinterpret_cast<T *>(address);
}

}  // namespace bonsai::fake
