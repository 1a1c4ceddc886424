#include "plugins/cuda/compile/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "plugins/common/failure.h"
#include "plugins/cuda/compile/compiler.h"
#include "plugins/cuda/driver/driver.h"
#include "plugins/cuda/driver/symbol.h"

namespace bonsai::cuda {
namespace {

// Directories with toolkits' libraries, each once.
std::vector<std::string> library_directories() {
  const std::array<const char *, 3> toolkits = {std::getenv("CUDA_HOME"), std::getenv("CUDA_PATH"), "/usr/local/cuda"};
  std::vector<std::string> directories;
  for (const char *toolkit : toolkits) {
    if (!toolkit || toolkit[0] != '/') continue;
    std::string directory = std::string(toolkit) + "/lib64/";
    if (std::find(directories.begin(), directories.end(), directory) == directories.end()) {
      directories.push_back(std::move(directory));
    }
  }
  return directories;
}

void ask_architectures(Nvrtc &nvrtc) {
  int major = 0, minor = 0, count = 0;
  nvrtc.check(nvrtc.nvrtcVersion(&major, &minor), "nvrtcVersion");
  nvrtc.version = 1000 * major + 10 * minor;
  nvrtc.check(nvrtc.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  nvrtc.architectures.resize(static_cast<size_t>(count));
  nvrtc.check(nvrtc.nvrtcGetSupportedArchs(nvrtc.architectures.data()), "nvrtcGetSupportedArchs");
  std::sort(nvrtc.architectures.begin(), nvrtc.architectures.end());
}

// When it compiles, NVRTC has the loader look for its builtins by their name alone. A library that was found by its
// path has them beside it, where the loader does not look; once they are loaded, it finds them by that name.
void load_builtins(const std::string &name, int version) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos) return;
  const std::string directory = name.substr(0, slash + 1);
  dlopen(fmt::format("{}libnvrtc-builtins.so.{}", directory, version_name(version)).c_str(), RTLD_LAZY | RTLD_LOCAL);
}

// Throws if it cannot compile.
void prove(const std::string &name, const Nvrtc &nvrtc) {
  load_builtins(name, nvrtc.version);
  if (nvrtc.architectures.empty()) throw plugin::Failure(BONSAI_INTERNAL, "it compiles for no architecture");
  const Unit unit = {.name = "an empty kernel", .file = "empty.cu", .defines = {}, .hot = {}};
  const KernelFile file = {unit.file, "__global__ void empty() {}\n"};
  const Architecture oldest = {fmt::format("compute_{}", nvrtc.architectures[0])};
  compile(nvrtc, {.unit = unit, .architecture = oldest, .files = {&file, 1}});
}

// The library, or one line.
NvrtcResult start(const std::string &name, void *library) {
  auto nvrtc = std::make_shared<Nvrtc>();
  std::string missing;
#define BONSAI_FIND(function) find_symbol(library, #function, nvrtc->function, missing);
  BONSAI_CUDA_NVRTC_FUNCTIONS(BONSAI_FIND)
#undef BONSAI_FIND
  if (!missing.empty()) return {nullptr, fmt::format("{} has no {}", name, missing)};
  try {
    ask_architectures(*nvrtc);
  } catch (const plugin::Failure &failure) {
    return {nullptr, fmt::format("{}: {}", name, failure.what())};
  }
  return {std::move(nvrtc), {}};
}

// The loader's message, but for files that are just not there: their name says enough.
std::string why_not(const std::string &name, std::string_view loader_message) {
  return loader_message.ends_with("No such file or directory") ? name : std::string(loader_message);
}

NvrtcResult load(const std::string &name) {
  if (void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return start(name, library);
  return {nullptr, why_not(name, dlerror())};
}

}  // namespace

void Nvrtc::check(nvrtcResult result, const char *call) const {
  if (result == NVRTC_SUCCESS) return;
  throw plugin::Failure(BONSAI_INTERNAL, fmt::format("{}: {}", call, nvrtcGetErrorString(result)));
}

std::vector<std::string> nvrtc_candidates(int driver_version) {
  std::vector<const char *> names = {"libnvrtc.so.13", "libnvrtc.so.12"};
  if (driver_version / 1000 == 12) std::swap(names[0], names[1]);
  std::vector<std::string> candidates;
  for (const char *name : names) {
    candidates.emplace_back(name);
    for (const std::string &directory : library_directories()) candidates.push_back(directory + name);
  }
  return candidates;
}

void NvrtcSearch::note(const std::string &why) {
  reason_ += (reason_.empty() ? "NVRTC is not found, looked for " : ", ") + why;
}

// To the next candidate that loads.
void NvrtcSearch::go_on() {
  nvrtc_ = nullptr;
  while (!nvrtc_ && next_ < candidates_.size()) {
    NvrtcResult result = load(candidates_[next_++]);
    nvrtc_ = std::move(result.nvrtc);
    if (!nvrtc_) note(result.reason);
  }
}

NvrtcResult NvrtcSearch::loaded() {
  const std::lock_guard lock(mutex_);
  if (next_ == 0) go_on();
  return found();
}

NvrtcResult NvrtcSearch::proved() {
  const std::lock_guard lock(mutex_);
  if (next_ == 0) go_on();
  while (nvrtc_ && !is_proved_) {
    const std::string &name = candidates_[next_ - 1];
    try {
      prove(name, *nvrtc_);
      is_proved_ = true;
    } catch (const plugin::Failure &failure) {
      note(fmt::format("{}: {}", name, failure.what()));
      go_on();
    }
  }
  return found();
}

}  // namespace bonsai::cuda
