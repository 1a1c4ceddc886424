// The main function of tests that need a device: where there is none, one line that says why, and ctest's word for
// "skipped".
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "host/backend/registry.h"

namespace {

constexpr int kSkipped = 77;

// Why the CUDA backend has no device; empty if it has one.
std::string why_no_device() {
  const auto backend = bonsai::host::Backend::load(BONSAI_CUDA_PLUGIN);
  if (!backend) return backend.error().message;
  std::string reason;
  const auto count = bonsai::host::device_count(**backend, &reason);
  if (!count) return count.error().message;
  return *count > 0 ? std::string() : reason;
}

}  // namespace

int main(int argc, char **argv) {
  setenv("BONSAI_CONFORMANCE_PLUGIN", BONSAI_CUDA_PLUGIN, 0);  // before the suite is put together
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests)) {
    if (const std::string reason = why_no_device(); !reason.empty()) {
      std::printf("skipped: no GPU: %s\n", reason.c_str());
      return kSkipped;
    }
  }
  return RUN_ALL_TESTS();
}
