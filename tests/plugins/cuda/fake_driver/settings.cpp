#include "tests/plugins/cuda/fake_driver/settings.h"

#include <cstdlib>

namespace bonsai::fake {
namespace {

constexpr size_t kKiB = 1024;

std::string text(const char *name, const char *otherwise) {
  const char *value = std::getenv(name);
  return value ? value : otherwise;
}

uint64_t number(const char *name, const char *otherwise) {
  return std::strtoull(text(name, otherwise).c_str(), nullptr, 10);
}

emulation::Order read_order() {
  const std::string order = text("BONSAI_FAKE_CUDA_ORDER", "forward");
  if (order == "forward") return order_of(0);
  if (order == "backward") return order_of(1);
  return order_of(2 + number("BONSAI_FAKE_CUDA_ORDER", "0"));
}

}  // namespace

emulation::Order order_of(uint64_t number) {
  using Kind = emulation::Order::Kind;
  if (number == 0) return {Kind::kForward};
  if (number == 1) return {Kind::kBackward};
  return {Kind::kRandom, number};
}

Settings read_settings() {
  return {
      .devices = static_cast<int>(number("BONSAI_FAKE_CUDA_DEVICES", "1")),
      .capability = static_cast<int>(number("BONSAI_FAKE_CUDA_CAPABILITY", "80")),
      .name = text("BONSAI_FAKE_CUDA_NAME", "Emulated device"),
      .memory_bytes = number("BONSAI_FAKE_CUDA_MEMORY", "2147483648"),
      .multiprocessors = static_cast<int>(number("BONSAI_FAKE_CUDA_MULTIPROCESSORS", "8")),
      .driver_version = static_cast<int>(number("BONSAI_FAKE_CUDA_DRIVER_VERSION", "13000")),
      .order = read_order(),
      .is_eager = number("BONSAI_FAKE_CUDA_EAGER", "0") != 0,
      .is_strict = number("BONSAI_FAKE_CUDA_STRICT", "0") != 0,
  };
}

// CUDA C++ Programming Guide, "Compute Capabilities": a block can have 1 KiB less than its multiprocessor.
size_t shared_bytes_of_multiprocessor(int capability) {
  switch (capability) {
    case 75:
      return 64 * kKiB;
    case 80:
    case 87:
      return 164 * kKiB;
    case 86:
    case 89:
    case 120:
      return 100 * kKiB;
    default:
      return 228 * kKiB;
  }
}

size_t shared_bytes_of_block(int capability) {
  return capability == 75 ? 64 * kKiB : shared_bytes_of_multiprocessor(capability) - kKiB;
}

}  // namespace bonsai::fake
