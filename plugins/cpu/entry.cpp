// The backend's table.
#include <bonsai/backend.h>

#include <memory>
#include <string>

#include "plugins/common/backend_table.h"
#include "plugins/cpu/device.h"
#include "plugins/cpu/session.h"
#include "plugins/cpu/weight.h"

namespace bonsai::cpu {
namespace {

struct Backend {
  using Device = cpu::Device;
  using Weight = cpu::Weight;
  using Session = cpu::Session;

  static uint32_t count(std::string &) { return 1; }
  static void describe(uint32_t, bonsai_device_info &info) { describe_device(info); }
  static std::unique_ptr<Device> open(uint32_t, const bonsai_device_config &config) {
    return std::make_unique<Device>(parse_options(config), config.log, config.log_context);
  }
  static bonsai_weight_use supported_uses(bonsai_dtype dtype) { return cpu::supported_uses(dtype); }
};

constexpr bonsai_backend_api kTable =
    plugin::make_table<Backend>({.priority = 0,
                                 .name = "cpu",
                                 .version = BONSAI_CPU_VERSION,
                                 .description = "Any processor, with SIMD; the same bytes on every one of them"});

}  // namespace
}  // namespace bonsai::cpu

extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  return host_major == BONSAI_ABI_MAJOR ? &bonsai::cpu::kTable : nullptr;
}
