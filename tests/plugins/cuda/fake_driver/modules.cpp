// Modules, functions and launches.
#include <algorithm>
#include <cstring>

#include "tests/plugins/cuda/fake_driver/image.h"
#include "tests/plugins/cuda/fake_driver/work.h"

using namespace bonsai::fake;
using bonsai::emulation::Kernel;

namespace {

constexpr size_t kPlainSharedBytes = 48 * 1024;  // more must be allowed first
constexpr unsigned kRegisters = 65'536;          // of a multiprocessor

// Where a caller wants to read why an image is refused.
struct ErrorLog {
  char *text = nullptr;
  size_t bytes = 0;

  void write(const std::string &line) const {
    if (!text || bytes == 0) return;
    const size_t n = line.copy(text, bytes - 1);
    text[n] = '\0';
  }
};

ErrorLog find_log(unsigned n, const CUjit_option *options, void **values) {
  ErrorLog log;
  for (unsigned i = 0; i < n; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log.text = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) log.bytes = reinterpret_cast<size_t>(values[i]);
  }
  return log;
}

// Whether code for one architecture runs on a device: cubins within a major version, PTX on all that are newer, and
// what is made for 90a and the like there alone.
bool runs_on(const Image &image, ImageKind kind, int capability) {
  const int made_for = capability_of(image.architecture);
  if (image.architecture.ends_with('a')) return made_for == capability;
  if (kind == ImageKind::kPtx) return made_for <= capability;
  return made_for / 10 == capability / 10 && made_for <= capability;
}

bool is_unit(const std::string &unit) {
  const auto kernels = bonsai::emulation::kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](const Kernel &kernel) { return kernel.unit == unit; });
}

// The unit that an image is of. Throws Refusal, as a driver refuses an image that it cannot run.
std::string load_image(const Settings &settings, const char *text, const ErrorLog &log) {
  const ImageKind kind = kind_of(text);
  const std::optional<Image> image = parse_image(text);
  if (!image) {
    log.write("fake CUDA: the image is not what the fake NVRTC made");
    throw Refusal{kind == ImageKind::kPtx ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE};
  }
  if (!runs_on(*image, kind, settings.capability)) {
    log.write(fmt::format("fake CUDA: made for {}, the device has {}", image->architecture, settings.capability));
    throw Refusal{CUDA_ERROR_NO_BINARY_FOR_GPU};
  }
  const bool is_newer = image->compiler / 1000 > settings.driver_version / 1000;
  if (is_newer) {
    log.write(fmt::format("fake CUDA: made by NVRTC {}, the driver is {}", image->compiler, settings.driver_version));
    throw Refusal{kind == ImageKind::kPtx ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION : CUDA_ERROR_INVALID_IMAGE};
  }
  if (!is_unit(image->unit)) {
    throw Misuse{CUDA_ERROR_INVALID_IMAGE, fmt::format("no kernels of {} are emulated here", image->unit)};
  }
  return image->unit;
}

Function &find_function(World &world, CUfunction handle) {
  Function &function = find(world.functions, handle, "function");
  if (!world.modules.is_alive(function.module)) {
    throw Misuse{CUDA_ERROR_INVALID_HANDLE, "the function's module was unloaded"};
  }
  return function;
}

int attribute(const Function &function, CUfunction_attribute which) {
  const Kernel &kernel = *function.kernel;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return static_cast<int>(std::min(255u, kRegisters / (kernel.most_threads * std::max(1u, kernel.fewest_blocks))));
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return 0;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(kernel.static_shared.size());
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(kernel.most_threads);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return static_cast<int>(std::max(function.most_dynamic_shared, kPlainSharedBytes - kernel.static_shared.size()));
    default:
      throw Misuse{CUDA_ERROR_INVALID_VALUE,
                   fmt::format("the fake driver does not know function attribute {}", static_cast<int>(which))};
  }
}

// What a driver checks of a launch, where the emulator does not.
void check_launch(const Settings &settings, const CUlaunchConfig &config, const Function &function) {
  const Kernel &kernel = *function.kernel;
  const unsigned threads = config.blockDimX * config.blockDimY * config.blockDimZ;
  if (config.blockDimY != 1 || config.blockDimZ != 1) {
    throw Misuse{CUDA_ERROR_NOT_SUPPORTED, "a block of more than one dimension, which the vocabulary does not have"};
  }
  if (threads == 0 || threads > kernel.most_threads) {
    throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("{} is launched with blocks of {} threads, expected 1 to {}",
                                                       kernel.name, threads, kernel.most_threads)};
  }
  if (config.gridDimX == 0 || config.gridDimY == 0 || config.gridDimZ == 0) {
    throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("{} is launched with a grid of ({}, {}, {})", kernel.name,
                                                       config.gridDimX, config.gridDimY, config.gridDimZ)};
  }
  const auto allowed = static_cast<size_t>(attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  if (config.sharedMemBytes > allowed) {
    throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("{} is launched with {} bytes of shared memory, {} are allowed",
                                                       kernel.name, config.sharedMemBytes, allowed)};
  }
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const bool is_early = config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    if (is_early && settings.capability >= 90) continue;
    throw Misuse{CUDA_ERROR_NOT_SUPPORTED, fmt::format("{} is launched with attribute {}, which the device lacks",
                                                       kernel.name, static_cast<int>(config.attrs[i].id))};
  }
}

}  // namespace

extern "C" {

CUresult cuModuleLoadDataEx(CUmodule *handle, const void *image, unsigned n, CUjit_option *options, void **values) {
  return call(__func__, kNeedsContext | kNotWhileCapturing, [&](World &world) {
    const std::string unit = load_image(world.settings, static_cast<const char *>(image), find_log(n, options, values));
    *handle = reinterpret_cast<CUmodule>(world.modules.add({&current_context(), unit}));
  });
}

CUresult cuModuleUnload(CUmodule handle) {
  return call(__func__, kNeedsContext | kReleases | kNotWhileCapturing, [&](World &world) {
    Module &module = find(world.modules, handle, "module");
    if (world.broken == CUDA_SUCCESS) run_all(world, *module.context);
    world.modules.remove(module);
  });
}

CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module_handle, const char *name) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Module &module = find(world.modules, module_handle, "module");
    const Kernel *kernel = bonsai::emulation::find_kernel(module.unit, name);
    if (!kernel) throw Misuse{CUDA_ERROR_NOT_FOUND, fmt::format("{} has no kernel {}", module.unit, name)};
    *handle = reinterpret_cast<CUfunction>(world.functions.add({&current_context(), &module, kernel}));
    ++world.functions_asked;
  });
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction handle) {
  return call(__func__, kNeedsContext, [&](World &world) { *value = attribute(find_function(world, handle), which); });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Function &function = find_function(world, handle);
    const size_t most = shared_bytes_of_block(world.settings.capability) - function.kernel->static_shared.size();
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
      throw Misuse{CUDA_ERROR_INVALID_VALUE,
                   fmt::format("the fake driver does not know function attribute {}", static_cast<int>(which))};
    }
    if (value < 0 || static_cast<size_t>(value) > most) {
      throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("{} is to have {} bytes of shared memory, the device has {}",
                                                         function.kernel->name, value, most)};
    }
    function.most_dynamic_shared = static_cast<size_t>(value);
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **parameters, void **) {
  return call(__func__, kNeedsContext, [&](World &world) {
    const Function &function = find_function(world, handle);
    Stream &stream = find_stream(world, config->hStream);
    check_launch(world.settings, *config, function);
    const auto *arguments = static_cast<const std::byte *>(parameters[0]);
    submit(world, stream,
           Work{.kind = Work::Kind::kKernel,
                .function = &function,
                .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                .block_threads = config->blockDimX,
                .shared_bytes = config->sharedMemBytes,
                .arguments = {arguments, arguments + function.kernel->arguments_bytes}});
  });
}

}  // extern "C"
