// The backend's table.
#include <bonsai/backend.h>

#include <memory>
#include <string>

#include "plugins/common/backend_table.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/session.h"
#include "plugins/cuda/weight.h"

namespace bonsai::cuda {
namespace {

struct Backend {
  using Device = cuda::Device;
  using Weight = cuda::Weight;
  using Session = cuda::Session;

  static uint32_t count(std::string &why_none) {
    why_none = why_no_devices();
    return why_none.empty() ? static_cast<uint32_t>(platform().devices.size()) : 0;
  }
  static void describe(uint32_t index, bonsai_device_info &info) { describe_device(index, info); }
  static std::unique_ptr<Device> open(uint32_t index, const bonsai_device_config &config) {
    return std::make_unique<Device>(platform().devices[index], parse_options(config), log_of(config));
  }
  static bonsai_weight_use supported_uses(bonsai_dtype dtype) { return cuda::supported_uses(dtype); }
};

constexpr bonsai_backend_api kTable =
    plugin::make_table<Backend>({.priority = 100,
                                 .name = "cuda",
                                 .version = BONSAI_CUDA_VERSION,
                                 .description = "NVIDIA GPUs from compute capability 7.5 on, through the driver"});

}  // namespace
}  // namespace bonsai::cuda

extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  return host_major == BONSAI_ABI_MAJOR ? &bonsai::cuda::kTable : nullptr;
}
