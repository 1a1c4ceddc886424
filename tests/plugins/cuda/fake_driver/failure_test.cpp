// Starting, contexts, modules, launches and failures over the fake driver.
#include <array>
#include <numeric>

#include "plugins/cuda/compile/compiler.h"
#include "tests/plugins/cuda/fake_driver/fake_fixture.h"

namespace bonsai::fake {
namespace {

class FakeKernel : public FakeDriver {
 protected:
  void SetUp() override {
    FakeDriver::SetUp();
    memory = allocate(2 * kBytes);
    std::vector<uint32_t> numbers(kBytes / 4);
    std::iota(numbers.begin(), numbers.end(), 0u);
    ASSERT_EQ(cu->cuMemcpyHtoDAsync_v2(memory, numbers.data(), kBytes, stream), CUDA_SUCCESS);
    ASSERT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);  // until then the numbers are read
    arguments = {on_device<uint32_t>(memory), on_device<uint32_t>(memory + kBytes), 32};
    module = load_module();
    add_index = find_function(module, "add_index");
  }
  void TearDown() override {
    control().reset();
    EXPECT_EQ(cu->cuModuleUnload(module), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuMemFree_v2(memory), CUDA_SUCCESS);
    FakeDriver::TearDown();
  }

  static constexpr size_t kBytes = 1024;
  CUdeviceptr memory = 0;
  cuda::ExampleArguments arguments = {};
  CUmodule module = nullptr;
  CUfunction add_index = nullptr;
};

TEST_F(FakeKernel, KernelsRunOnTheEmulator) {
  EXPECT_EQ(launch(add_index, arguments), CUDA_SUCCESS);
  arguments = {};  // it was copied
  std::vector<uint32_t> out(32);
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(out.data(), memory + kBytes, 32 * 4, stream), CUDA_SUCCESS);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 2 * i);
  EXPECT_EQ(control().kernels(), 1u);
}

TEST_F(FakeKernel, LaunchesThatADeviceCannotRunAreMisuse) {
  EXPECT_EQ(launch(add_index, arguments, 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuLaunchKernelEx: add_index is launched with blocks of 512 threads, expected 1 to 256\n");
  const size_t fixed = 48 * 1024 - 32;  // example.cu has 32 bytes of its own
  EXPECT_EQ(launch(add_index, arguments, 32, fixed + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(),
            "cuLaunchKernelEx: add_index is launched with 49121 bytes of shared memory, 49120 are allowed\n");
  const auto allow = [&](int bytes) {
    return cu->cuFuncSetAttribute(add_index, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  };
  EXPECT_EQ(allow(200'000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(),
            "cuFuncSetAttribute: add_index is to have 200000 bytes of shared memory, the device has 166880\n");
  EXPECT_EQ(allow(100'000), CUDA_SUCCESS);
  EXPECT_EQ(launch(add_index, arguments, 32, 100'000), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
}

TEST_F(FakeKernel, FunctionsTellWhatTheyNeed) {
  int threads = 0, shared = 0;
  EXPECT_EQ(cu->cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add_index), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, add_index), CUDA_SUCCESS);
  EXPECT_EQ(threads, 256);
  EXPECT_EQ(shared, 32);
}

TEST_F(FakeKernel, FunctionsDoNotOutliveTheirModule) {
  CUmodule gone = load_module();
  CUfunction function = find_function(gone, "add_index");
  EXPECT_EQ(cu->cuModuleUnload(gone), CUDA_SUCCESS);
  EXPECT_EQ(launch(function, arguments), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(take_misuse(), "cuLaunchKernelEx: the function's module was unloaded\n");
}

TEST_F(FakeKernel, GraphsDoNotOutliveTheirModules) {
  CUmodule gone = load_module();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  EXPECT_EQ(launch(find_function(gone, "add_index"), arguments), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuModuleUnload(gone), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(take_misuse(), "kernel add_index runs, but its module was unloaded\n");
  EXPECT_EQ(cu->cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(FakeKernel, KernelsCanBeLeftOut) {
  control().run_kernels(0);
  EXPECT_EQ(launch(add_index, arguments), CUDA_SUCCESS);
  uint32_t out = 0;
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(&out, memory + kBytes + 4, 4, stream), CUDA_SUCCESS);
  control().run_kernels(1);
  EXPECT_EQ(control().kernels(), 1u);
  EXPECT_EQ(out, 0xFFFFFFFFu);
}

TEST_F(FakeKernel, HostMemoryAmongTheArgumentsIsMisuse) {
  std::vector<uint32_t> host(32);
  arguments.in = host.data();
  EXPECT_EQ(launch(add_index, arguments), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(take_misuse(),
            "kernel add_index is given the host's memory at byte 0 of its arguments, expected the device's\n");
}

TEST_F(FakeKernel, FreedMemoryAmongTheArgumentsIsMisuse) {
  const CUdeviceptr gone = allocate(128);
  EXPECT_EQ(cu->cuMemFree_v2(gone), CUDA_SUCCESS);
  arguments.out = on_device<uint32_t>(gone);
  EXPECT_EQ(launch(add_index, arguments), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(take_misuse(), "kernel add_index is given freed device memory at byte 8 of its arguments\n");
}

TEST_F(FakeKernel, KernelsThatBreakARuleLoseTheDevice) {
  CUmodule broken = load_module("broken.cu");
  EXPECT_EQ(launch(find_function(broken, "early_return"), arguments, 96), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cu->cuModuleUnload(broken), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(take_misuse().starts_with("broken.cu: early_return, block (0, 0, 0): warps 0, 2 at sync_block"));
}

TEST_F(FakeKernel, TheNthCallFails) {
  control().fail_call(2, CUDA_ERROR_UNKNOWN);
  size_t bytes = 0;
  EXPECT_EQ(cu->cuMemGetInfo_v2(&bytes, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemGetInfo_v2(&bytes, &bytes), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cu->cuMemGetInfo_v2(&bytes, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(control().calls(), 3u);
}

TEST_F(FakeKernel, AfterALastingErrorOnlyReleasingWorks) {
  const CUdeviceptr a = allocate(4);
  CUevent event = nullptr;
  EXPECT_EQ(cu->cuEventCreate(&event, 0), CUDA_SUCCESS);
  control().fail_call(1, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(launch(add_index, arguments), CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(cu->cuEventRecord(event, stream), CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(cu->cuEventDestroy_v2(event), CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(control().alive().events, 0u);
  EXPECT_EQ(control().alive().device_allocations, 1u);  // the fixture's
  EXPECT_EQ(control().misuse(), "");
}

TEST_F(FakeKernel, TheNthPieceOfWorkFails) {
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  control().fail_work(2, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch(add_index, arguments), CUDA_SUCCESS);
  EXPECT_EQ(launch(add_index, arguments), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(control().kernels(), 1u);
  EXPECT_EQ(launch(add_index, arguments), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// The result and the error log of loading an image.
std::pair<CUresult, std::string> load(const cuda::Driver &cu, const std::string &image) {
  std::array<char, 256> log = {};
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, 2> values = {log.data(), reinterpret_cast<void *>(log.size())};
  CUmodule module = nullptr;
  const CUresult result = cu.cuModuleLoadDataEx(&module, image.c_str(), 2, options.data(), values.data());
  if (result == CUDA_SUCCESS) {
    EXPECT_EQ(cu.cuModuleUnload(module), CUDA_SUCCESS);
  }
  return {result, log.data()};
}

using FakeModule = FakeDriver;

TEST_F(FakeModule, ImagesAreForOneArchitecture) {
  const auto result_of = [&](const char *architecture) {
    return std::pair(load(*cu, make_ptx({"example.cu", architecture, 13000})).first,
                     load(*cu, make_cubin({"example.cu", architecture, 13000})).first);
  };
  using Results = std::pair<CUresult, CUresult>;
  EXPECT_EQ(result_of("sm_80"), Results(CUDA_SUCCESS, CUDA_SUCCESS));
  EXPECT_EQ(result_of("sm_75"), Results(CUDA_SUCCESS, CUDA_ERROR_NO_BINARY_FOR_GPU));
  EXPECT_EQ(result_of("sm_86"), Results(CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU));
  EXPECT_EQ(result_of("sm_90a"), Results(CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU));
  EXPECT_EQ(load(*cu, make_cubin({"example.cu", "sm_90a", 13000})).second,
            "fake CUDA: made for sm_90a, the device has 80");
  EXPECT_EQ(control().misuse(), "");
}

TEST_F(FakeModule, CorruptedImagesAreRefused) {
  const std::string ptx = make_ptx({"example.cu", "sm_80", 13000}), cubin = make_cubin({"example.cu", "sm_80", 13000});
  std::string changed = cubin;
  changed[changed.size() / 2] ^= 1;
  EXPECT_EQ(load(*cu, changed).first, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(*cu, cubin.substr(0, cubin.size() - 2)).first, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(*cu, "").first, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load(*cu, ptx.substr(0, ptx.size() / 2)).first, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load(*cu, make_ptx({"example.cu", "sm_80", 14000})).first, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(control().misuse(), "");
  EXPECT_EQ(load(*cu, make_ptx({"other.cu", "sm_80", 13000})).first, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(take_misuse(), "cuModuleLoadDataEx: no kernels of other.cu are emulated here\n");
}

// Units that the product gains must be added to this folder's CMakeLists.txt.
TEST_F(FakeModule, EveryUnitOfTheProductIsEmulated) {
  const cuda::NvrtcResult nvrtc = cuda::NvrtcSearch({BONSAI_FAKE_NVRTC}).proved();
  ASSERT_TRUE(nvrtc.nvrtc) << nvrtc.reason;
  for (const cuda::Unit &unit : cuda::units()) {
    const cuda::Architecture architecture{"sm_80"};
    const cuda::Binary binary = cuda::compile(*nvrtc.nvrtc, {.unit = unit, .architecture = architecture});
    EXPECT_EQ(load(*cu, binary.cubin).first, CUDA_SUCCESS) << unit.name;
    EXPECT_EQ(load(*cu, binary.ptx).first, CUDA_SUCCESS) << unit.name;
  }
  EXPECT_EQ(control().misuse(), "");
}

using FakeContext = FakeDriver;

TEST_F(FakeContext, CallsNeedACurrentContext) {
  CUcontext popped = nullptr;
  EXPECT_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, context);
  CUdeviceptr address = 0;
  EXPECT_EQ(cu->cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(take_misuse(), "cuMemAlloc_v2: no context is current\n");
  EXPECT_EQ(cu->cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(take_misuse(), "cuCtxPopCurrent_v2: no context is current\n");
  EXPECT_EQ(cu->cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
}

TEST_F(FakeContext, ReleasingGoesOnWhereAContextCouldNotBePushed) {
  const CUdeviceptr a = allocate(4);
  EXPECT_EQ(cu->cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  control().fail_call(1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu->cuCtxPushCurrent_v2(context), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(control().alive().device_allocations, 0u);
  EXPECT_EQ(control().misuse(), "");
  EXPECT_EQ(cu->cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
}

TEST_F(FakeContext, ContextsAreReleasedAsOftenAsRetainedAndWhenNothingIsLeftInThem) {
  EXPECT_EQ(cu->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(take_misuse(),
            "cuDevicePrimaryCtxRelease_v2: the context goes, and with it 1 pushed contexts, 1 streams\n");
  EXPECT_EQ(cu->cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(take_misuse(), "cuDevicePrimaryCtxRelease_v2: the context is not retained\n");
  EXPECT_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuDevicePrimaryCtxRetain(&context, 1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(take_misuse(), "cuDevicePrimaryCtxRetain: device 1, of 1\n");
}

}  // namespace
}  // namespace bonsai::fake
