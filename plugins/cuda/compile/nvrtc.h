// NVIDIA's run-time compiler, found at run time.
#pragma once

#include <nvrtc.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
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

// NVRTC among candidates, in two steps: one that loads is enough to name kept kernels, by its version and
// architectures; before it compiles any it has to prove that it can, since a library that loads may be half of an
// installation. Any thread. Never throws for a missing one. The libraries stay loaded.
class NvrtcSearch {
 public:
  explicit NvrtcSearch(std::vector<std::string> candidates) : candidates_(std::move(candidates)) {}

  // The first that loads; once proved() has passed that over, what it returns.
  NvrtcResult loaded();
  // The first that compiles an empty kernel, which it does once.
  NvrtcResult proved();

 private:
  void go_on();
  void note(const std::string &why);
  NvrtcResult found() const { return {nvrtc_, nvrtc_ ? std::string() : reason_}; }

  std::mutex mutex_;
  std::vector<std::string> candidates_;
  size_t next_ = 0;
  std::shared_ptr<const Nvrtc> nvrtc_;  // of the candidate ahead of next_; null: none of those loads
  bool is_proved_ = false;
  std::string reason_;  // why those were passed over
};

}  // namespace bonsai::cuda
