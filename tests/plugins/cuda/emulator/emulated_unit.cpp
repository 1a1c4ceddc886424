// One .cu file as C++. CMake compiles this once per unit and says
//   BONSAI_EMULATED_FILE            the file to include
//   BONSAI_EMULATED_UNIT            the unit's name
//   BONSAI_EMULATED_SHARED_SECTION  where its shared memory lies; BONSAI_EMULATED_SHARED_START and _END: its symbols
//   BONSAI_EMULATED_ARCHITECTURE    what __CUDA_ARCH__ is to be
// All of the file is in an unnamed namespace, because the same functions are compiled again with other macros. What
// those files include and this machine's standard library has must be included before.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/plugins/cuda/emulator/device.h"

// The linker defines these where the section exists.
extern "C" __attribute__((weak, visibility("hidden"))) std::byte BONSAI_EMULATED_SHARED_START[];
extern "C" __attribute__((weak, visibility("hidden"))) std::byte BONSAI_EMULATED_SHARED_END[];

namespace {

[[maybe_unused]] std::span<std::byte> bonsai_emulated_static_shared() {
  return {BONSAI_EMULATED_SHARED_START, BONSAI_EMULATED_SHARED_END};
}

#include BONSAI_EMULATED_FILE

}  // namespace
