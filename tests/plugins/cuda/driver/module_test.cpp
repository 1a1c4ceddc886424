// Modules that a driver refuses are told from drivers that fail, and launches carry what they were given.
#include "plugins/cuda/driver/module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "plugins/cuda/kernels/attention_arguments.h"
#include "tests/plugins/cuda/driver/fake_functions.h"

namespace bonsai::cuda {
namespace {

struct Arguments {
  uint32_t first, second;
};

class DriverModules : public testing::Test {
 protected:
  std::string message_of_launch(const Function &function) {
    try {
      launch(stream_, function, {.grid = {1}, .threads = 32}, Arguments{});
    } catch (const Failure &failure) {
      return failure.what();
    }
    return "no failure";
  }

  FakeDriver fake_;
  Context context_{fake_.driver, 0};
  CurrentContext current_{context_};
  Stream stream_{context_};
  std::string why_;
};

TEST_F(DriverModules, RefusedImageIsNoFailure) {
  fake_.refused_image = "cubin";
  EXPECT_EQ(Module::load(context_, "cubin of another device", &why_), nullptr);
  EXPECT_EQ(why_, "cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU: some text: ptxas fatal");
}

TEST_F(DriverModules, LostDeviceIsAFailure) {
  fake_.result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_THROW(Module::load(context_, "cubin", &why_), Failure);
}

TEST_F(DriverModules, UnknownKernelIsNamed) {
  const auto module = Module::load(context_, "cubin", &why_);
  fake_.result = CUDA_ERROR_NOT_FOUND;
  fake_.failing = "cuModuleGetFunction";
  try {
    module->function("no_kernel");
    FAIL() << "nothing was thrown";
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
    EXPECT_STREQ(failure.what(), "cuModuleGetFunction of no_kernel: CUDA_ERROR_NOT_FOUND: some text");
  }
}

TEST_F(DriverModules, FunctionTellsWhatItNeeds) {
  const auto module = Module::load(context_, "cubin", &why_);
  const Function function = module->function("kernel");
  EXPECT_EQ(function.shared_bytes(), 100 + CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
}

TEST_F(DriverModules, LaunchCarriesShapeAndArguments) {
  const auto module = Module::load(context_, "cubin", &why_);
  const Function function = module->function("kernel");
  const Arguments arguments = {7, 9};
  launch(stream_, function, {.grid = {2, 3, 4}, .threads = 128, .shared_bytes = 1024}, arguments);
  EXPECT_EQ(fake_.launched.gridDimX, 2u);
  EXPECT_EQ(fake_.launched.gridDimY, 3u);
  EXPECT_EQ(fake_.launched.gridDimZ, 4u);
  EXPECT_EQ(fake_.launched.blockDimX, 128u);
  EXPECT_EQ(fake_.launched.blockDimY * fake_.launched.blockDimZ, 1u);
  EXPECT_EQ(fake_.launched.sharedMemBytes, 1024u);
  EXPECT_EQ(fake_.launched.hStream, stream_.handle());
  EXPECT_EQ(fake_.launched.numAttrs, 0u);
  EXPECT_EQ(std::memcmp(fake_.launched_arguments.data(), &arguments, sizeof arguments), 0);
}

// Compilers have been seen to take members of large arguments for padding.
TEST_F(DriverModules, LaunchKeepsEveryMemberOfLargeArguments) {
  const auto module = Module::load(context_, "cubin", &why_);
  const Function function = module->function("kernel");
  NarrowAttendArguments arguments;
  std::memset(static_cast<void *>(&arguments), 0xFF, sizeof arguments);
  fake_.arguments_bytes = sizeof arguments;
  launch(stream_, function, {}, arguments);
  const auto *launched = reinterpret_cast<const NarrowAttendArguments *>(fake_.launched_arguments.data());
  const PrepareHeadsArguments &heads = launched->heads;
  EXPECT_EQ(std::memcmp(&heads.pool.data, &arguments, sizeof heads.pool.data), 0);
  EXPECT_EQ(heads.pool.n_blocks & heads.blocks_per_sequence & heads.layer & heads.heads & heads.rope_dim, UINT32_MAX);
  const AttendArguments &attend = launched->attend;
  EXPECT_EQ(attend.pool.head_dim & attend.pool.kv_heads & attend.query_stride & attend.layer & attend.heads,
            UINT32_MAX);
  EXPECT_EQ(std::memcmp(&attend.packed, &arguments, sizeof attend.packed), 0);
}

TEST_F(DriverModules, LaunchMayStartEarly) {
  const auto module = Module::load(context_, "cubin", &why_);
  const Function function = module->function("kernel");
  launch(stream_, function, {.starts_early = true}, Arguments{});
  ASSERT_EQ(fake_.launched.numAttrs, 1u);
  EXPECT_EQ(fake_.launched_attributes[0].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(fake_.launched_attributes[0].value.programmaticStreamSerializationAllowed, 1);
}

TEST_F(DriverModules, LaunchThatFailsNamesTheKernel) {
  const auto module = Module::load(context_, "cubin", &why_);
  const Function function = module->function("matmul_decode");
  fake_.result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(message_of_launch(function), "cuLaunchKernelEx of matmul_decode: CUDA_ERROR_INVALID_VALUE: some text");
}

TEST_F(DriverModules, SharedMemoryIsNeverTakenBack) {
  const auto module = Module::load(context_, "cubin", &why_);
  Function function = module->function("matmul_decode");
  const auto calls = [&] { return std::count(fake_.calls.begin(), fake_.calls.end(), "cuFuncSetAttribute"); };
  for (const unsigned bytes : {60000u, 50000u, 60000u}) function.allow_shared_bytes(bytes);
  EXPECT_EQ(calls(), 1);
  function.allow_shared_bytes(70000);
  EXPECT_EQ(calls(), 2);
}

TEST_F(DriverModules, SharedMemoryThatIsRefusedNamesTheKernel) {
  const auto module = Module::load(context_, "cubin", &why_);
  Function function = module->function("matmul_decode");
  fake_.result = CUDA_ERROR_INVALID_VALUE;
  try {
    function.allow_shared_bytes(1 << 20);
    FAIL() << "nothing was thrown";
  } catch (const Failure &failure) {
    EXPECT_STREQ(failure.what(), "cuFuncSetAttribute of matmul_decode: CUDA_ERROR_INVALID_VALUE: some text");
  }
}

}  // namespace
}  // namespace bonsai::cuda
