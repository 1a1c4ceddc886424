// NVIDIA's run-time compiler, found at run time.
#pragma once

#include <nvrtc.h>

#include <memory>
#include <string>
#include <vector>

namespace bonsai::cuda {

#define BONSAI_CUDA_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                      \
  X(nvrtcGetErrorString)               \
  X(nvrtcGetNumSupportedArchs)         \
  X(nvrtcGetSupportedArchs)            \
  X(nvrtcCreateProgram)                \
  X(nvrtcDestroyProgram)               \
  X(nvrtcCompileProgram)               \
  X(nvrtcGetProgramLogSize)            \
  X(nvrtcGetProgramLog)                \
  X(nvrtcGetPTXSize)                   \
  X(nvrtcGetPTX)                       \
  X(nvrtcGetCUBINSize)                 \
  X(nvrtcGetCUBIN)

struct NvrtcFunctions {
#define BONSAI_DECLARE(name) decltype(&::name) name = nullptr;
  BONSAI_CUDA_NVRTC_FUNCTIONS(BONSAI_DECLARE)
#undef BONSAI_DECLARE
};

// Immutable once loaded; its functions may be called by many threads at once.
struct Nvrtc : NvrtcFunctions {
  int version = 0;                 // 1000 major + 10 minor
  std::vector<int> architectures;  // compute capabilities that it compiles for, 10 major + minor, rising

  // Throws INTERNAL with the call and NVRTC's name for the error.
  void check(nvrtcResult result, const char *call) const;
};

struct NvrtcResult {
  std::shared_ptr<const Nvrtc> nvrtc;  // null: see reason
  std::string reason;                  // names what was looked for
};

// Where NVRTC is looked for: its sonames as the dynamic loader finds them, then in the toolkits that CUDA_HOME and
// CUDA_PATH name and in /usr/local/cuda. NVRTC of the driver's own major version goes first: what a newer one makes,
// the driver may refuse.
std::vector<std::string> nvrtc_candidates(int driver_version);

// Takes the first that loads and compiles an empty kernel. Never throws for a missing one. The libraries stay loaded.
NvrtcResult load_nvrtc(const std::vector<std::string> &candidates);

}  // namespace bonsai::cuda
