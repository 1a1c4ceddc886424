#include "plugins/cuda/driver/module.h"

#include <array>

namespace bonsai::cuda {
namespace {

// True for errors that speak of the image, not of the device.
bool is_about_image(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NOT_FOUND:
      return true;
    default:
      return false;
  }
}

int attribute(const Driver &driver, CUfunction function, CUfunction_attribute which) {
  int value = 0;
  driver.check(driver.cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute");
  return value;
}

std::string first_line(const std::string &text) { return text.substr(0, text.find('\n')); }

}  // namespace

// Reading an attribute also brings the code to the device, where a driver loads lazily: no launch, and no recording
// of one, has to.
Function::Function(const Context &context, CUfunction handle, std::string name)
    : context_(&context), handle_(handle), name_(std::move(name)) {
  const Driver &driver = context.driver();
  shared_bytes_ = attribute(driver, handle, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
}

void Function::allow_shared_bytes(unsigned bytes) {
  if (bytes <= allowed_shared_bytes_) return;
  const Driver &driver = context_->driver();
  driver.check(
      driver.cuFuncSetAttribute(handle_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
      fmt::format("cuFuncSetAttribute of {}", name_).c_str());
  allowed_shared_bytes_ = bytes;
}

void Function::launch_raw(const Stream &stream, const LaunchShape &shape, const void *arguments) const {
  CUlaunchAttribute early = {};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = shape.grid.x;
  config.gridDimY = shape.grid.y;
  config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream.handle();
  config.attrs = &early;
  config.numAttrs = shape.starts_early ? 1 : 0;
  void *parameters[] = {const_cast<void *>(arguments)};
  const Driver &driver = context_->driver();
  const CUresult result = driver.cuLaunchKernelEx(&config, handle_, parameters, nullptr);
  if (result != CUDA_SUCCESS) driver.fail(result, fmt::format("cuLaunchKernelEx of {}", name_).c_str());
}

std::unique_ptr<Module> Module::load(const Context &context, const std::string &image, std::string *why) {
  std::array<char, 1024> log = {};
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, 2> values = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  const Driver &driver = context.driver();
  CUmodule module = nullptr;
  const CUresult result =
      driver.cuModuleLoadDataEx(&module, image.data(), options.size(), options.data(), values.data());
  if (result == CUDA_SUCCESS) return std::make_unique<Module>(context, module);
  if (!is_about_image(result)) driver.fail(result, "cuModuleLoadDataEx");
  *why = driver.describe(result, "cuModuleLoadDataEx");
  if (log[0]) *why += fmt::format(": {}", first_line(log.data()));
  return nullptr;
}

Function Module::function(const std::string &name) const {
  CUfunction function = nullptr;
  const Driver &driver = module_.driver();
  const CUresult result = driver.cuModuleGetFunction(&function, module_.get(), name.c_str());
  if (result != CUDA_SUCCESS) driver.fail(result, fmt::format("cuModuleGetFunction of {}", name).c_str());
  return Function(module_.context(), function, name);
}

}  // namespace bonsai::cuda
