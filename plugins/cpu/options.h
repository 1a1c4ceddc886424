// The options of device_open, as strings from the user.
#pragma once

#include <bonsai/backend.h>

#include <optional>
#include <span>
#include <string>

#include "plugins/cpu/kernels/prefetch.h"

namespace bonsai::cpu {

// Whether floats that are multiplied with are read where the caller has them, mostly the file's mapping, or copied.
enum class Mapped { kAuto, kOn, kOff };

struct Options {
  int threads = 0;                        // computing threads; 0: as many as there are cores
  std::string isa = "auto";               // the name of an instruction-set tier, or "auto"
  std::optional<Prefetch> prefetch = {};  // none: the processor's best
  Mapped mapped = Mapped::kAuto;          // copied as long as there is memory
};

// Most threads that cpu.threads may ask for.
inline constexpr int kMaxThreads = 1024;

// What device_info lists.
std::span<const bonsai_option_info *const> option_infos();

// Reads what device_open was given. Throws BONSAI_UNSUPPORTED for an unknown key and BONSAI_INVALID_ARGUMENT for a bad
// value; both messages name the key.
Options parse_options(const bonsai_device_config &config);

}  // namespace bonsai::cpu
