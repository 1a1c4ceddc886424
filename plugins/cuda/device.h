// An open device: its context and stream, its kernels, and the count of what memory is in use.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/common/profile.h"
#include "plugins/cuda/compile/library.h"
#include "plugins/cuda/driver/memory.h"
#include "plugins/cuda/driver/platform.h"
#include "plugins/cuda/driver/stream.h"
#include "plugins/cuda/layout/matmul_plan.h"
#include "plugins/cuda/linear.h"
#include "plugins/cuda/options.h"
#include "plugins/cuda/upload.h"

namespace bonsai::cuda {

using namespace plugin;

class Device {
 public:
  // Throws where the device cannot be had, or its kernels cannot be made ready when that was asked for.
  Device(const DeviceDescription &description, const Options &options, Log log);
  ~Device();

  const DeviceDescription &description() const { return description_; }
  const Context &context() const { return context_; }
  const Stream &stream() const { return stream_; }
  KernelLibrary &library() { return library_; }
  Uploader &uploader() { return uploader_; }
  Profile &profile() { return profile_; }
  const Log &log() const { return log_; }
  bool uses_graphs() const { return options_.graphs; }
  Fusion fusion() const { return options_.fusion; }
  Event::Waiting waiting() const { return options_.waiting; }
  MatmulDevice matmul_device() const;
  // Has every kernel wait for the end of the one ahead of it from here on, and says so in the log; false if they do so
  // already.
  bool stop_overlap(const std::string &why);

  // Submits a kernel on the device's stream; compiles its unit if need be. The context is current.
  template <class Arguments>
  void launch(const std::string &unit, const std::string &kernel, LaunchShape shape, const Arguments &arguments) {
    Function &function = ready_function(unit, kernel, shape.shared_bytes);
    shape.starts_early = overlaps_;
    cuda::launch(stream_, function, shape, arguments);
  }

  // The functions of the ABI's table, which documents them.
  void describe(bonsai_device_status &status) const;
  void synchronize();
  void profile(bonsai_profile_action action, bonsai_profile *profile);
  void gemv(const bonsai_gemv_args &args);

  uint64_t weight_bytes = 0;   // of live weights
  uint64_t session_bytes = 0;  // of live sessions

 private:
  // Shared memory of a block, static and dynamic, that needs no permission.
  static constexpr unsigned kPlainSharedBytes = 48 << 10;
  Function &ready_function(const std::string &unit, const std::string &kernel, unsigned shared_bytes);
  void multiply_vectors(const bonsai_gemv_args &args, uint32_t first);

  // What gemv works on; grows as it is asked for more.
  struct GemvScratch {
    DeviceBuffer x, y, activations;
  };

  DeviceDescription description_;
  Options options_;
  bool overlaps_;  // kernels may start early
  Log log_;
  Context context_;
  Stream stream_;
  KernelLibrary library_;
  Uploader uploader_;
  Profile profile_;
  GemvScratch gemv_;
  std::vector<MatrixRows> gemv_rows_;
};

// Measures a phase of work on the device's stream, if the profile is on: then the stream runs empty before and after.
class DeviceSpan {
 public:
  DeviceSpan(Device &device, Phase phase);
  ~DeviceSpan();
  DeviceSpan(const DeviceSpan &) = delete;
  DeviceSpan &operator=(const DeviceSpan &) = delete;

 private:
  Device &device_;
  Profile::Span span_;
};

// Why there is no device to open, no driver or no kernels for one; empty if there is. Looked for once, as the platform
// is, and in the user's own cache directory: what cuda.kernel_cache names is known when a device is opened.
const std::string &why_no_devices();

// What device_info says of device `index` of this process's platform.
void describe_device(uint32_t index, bonsai_device_info &info);

// The log that a device was given.
Log log_of(const bonsai_device_config &config);

}  // namespace bonsai::cuda
