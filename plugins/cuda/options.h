// The options of device_open, as strings from the user.
#pragma once

#include <bonsai/backend.h>

#include <span>
#include <string>

namespace bonsai::cuda {

// Which norms and activations are computed inside the products that take them, when a single token is decoded.
enum class Fusion {
  kOff,
  kOn,   // where it is expected to pay
  kAll,  // SwiGLU of any width, too
};

// What the host does until a pass is over.
enum class Waiting { kSpin, kBlock };

struct Options {
  std::string kernel_cache;  // a directory or "off"; empty: the user's own cache directory
  bool graphs = true;        // decode steps as captured graphs
  Fusion fusion = Fusion::kOn;
  bool overlap = false;  // kernels start before the ones ahead of them have ended
  bool ahead = true;     // kernels ask the second-level cache for weights of later ones
  Waiting waiting = Waiting::kSpin;
  bool warm = false;  // every kernel ready before device_open returns
};

// What device_info lists.
std::span<const bonsai_option_info *const> option_infos();

// Reads what device_open was given. Throws BONSAI_UNSUPPORTED for an unknown key and BONSAI_INVALID_ARGUMENT for a bad
// value; both messages name the key.
Options parse_options(const bonsai_device_config &config);

}  // namespace bonsai::cuda
