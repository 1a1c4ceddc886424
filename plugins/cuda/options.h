// The options of device_open, as strings from the user.
#pragma once

#include <bonsai/backend.h>

#include <span>
#include <string>

#include "plugins/cuda/driver/stream.h"

namespace bonsai::cuda {

// What kernels that decode do beside their own work, rather than kernels of their own.
enum class Fusion {
  kOff,
  kAttention,  // attention prepares heads and packs what it finds
  kSwiglu,     // and the product of gate and up goes on to SwiGLU and packs that
};

struct Options {
  std::string kernel_cache;  // a directory or "off"; empty: the user's own cache directory
  bool graphs = true;        // decode steps as captured graphs
  Fusion fusion = Fusion::kSwiglu;
  bool overlap = true;                                    // kernels start before the ones ahead of them have ended
  Event::Waiting waiting = Event::Waiting::kAsTheDriver;  // of the host, for a pass
  bool warm = false;                                      // every kernel ready before device_open returns
};

// What device_info lists.
std::span<const bonsai_option_info *const> option_infos();

// Reads what device_open was given. Throws BONSAI_UNSUPPORTED for an unknown key and BONSAI_INVALID_ARGUMENT for a bad
// value; both messages name the key.
Options parse_options(const bonsai_device_config &config);

}  // namespace bonsai::cuda
