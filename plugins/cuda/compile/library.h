// The kernels of one device: compiled or taken from the cache when they are first asked for.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/cuda/compile/cache.h"
#include "plugins/cuda/compile/compiler.h"
#include "plugins/cuda/compile/log.h"
#include "plugins/cuda/driver/module.h"

namespace bonsai::cuda {

struct LibraryConfig {
  int capability = 0;  // of the device, 10 major + minor
  NvrtcResult nvrtc;   // without NVRTC, what is in the cache still runs
  // Asked before the first unit is compiled: what it returns takes nvrtc's place. Empty: nvrtc has proved itself.
  std::function<NvrtcResult()> proved_nvrtc = {};
  std::string cache_directory;  // kernel_cache_directory(); empty: no cache
  Log log;
  std::span<const Unit> units = bonsai::cuda::units();
  std::span<const KernelFile> files = kernel_files();
};

// One line if no kernel at all can be had: the cache keeps none for the device, and there is no NVRTC, which has to
// prove itself only then. Else empty.
std::string why_no_kernels(const LibraryConfig &config);

// [device] Calls need the context to be current, and are serialised by whoever owns it.
class KernelLibrary {
 public:
  // Throws UNSUPPORTED if NVRTC compiles for newer devices alone, or if there are no kernels to be had.
  KernelLibrary(const Context &context, LibraryConfig config);

  // The reference is good as long as the library, even where prepare() turns to another NVRTC.
  const Architecture &architecture() const { return architectures_.back(); }

  // Makes units ready, those that must be compiled in parallel and with a progress line each, and has the code of all
  // their kernels on the device: memory that lacks for it is to lack here, and not in a pass. Where the driver refuses
  // what NVRTC makes, as it is newer, what another made and is kept is taken. Throws INTERNAL for a unit that does not
  // compile or load, UNSUPPORTED where one must be compiled and there is no NVRTC, and OUT_OF_MEMORY.
  void prepare(std::span<const std::string> names);

  // Lives as long as the library. Prepares the unit if need be. Throws as prepare does, and INTERNAL for an unknown
  // kernel.
  Function &function(const std::string &unit, const std::string &kernel);

 private:
  struct LoadedUnit {
    std::unique_ptr<Module> module;
    std::map<std::string, Function> functions;

    Function &function(const std::string &kernel);
  };

  // A unit that is neither loaded nor kept, or that the driver refuses as it is kept, with the reasons.
  struct Missing {
    const Unit *unit;
    std::string why;
  };

  CompileJob job(const Unit &unit) const {
    return {.unit = unit, .architecture = architecture(), .files = config_.files};
  }
  void warn_of_newer_nvrtc() const;
  // True: another NVRTC than before is taken, or none.
  bool prove_nvrtc();
  std::vector<Missing> load_kept(std::span<const std::string> names);
  // False: nothing of it is kept, or the driver refuses what is, with the reasons in *why.
  bool load_cached(const Unit &unit, std::string *why);
  // The newest that is kept and that the driver takes, if there is one.
  std::optional<LoadedUnit> load_of_any_nvrtc(const Unit &unit, std::string *why);
  [[noreturn]] void refuse_to_compile(const Unit &unit, const std::string &why);
  [[noreturn]] void fail_to_load(const Unit &unit, const std::string &why) const;
  std::vector<Binary> compile_all(std::span<const Missing> missing);
  // Loads the cubin, or the PTX where the driver refuses it; nothing, with the reasons added to *why, if it refuses
  // both.
  std::optional<LoadedUnit> load(const Binary &binary, std::string *why) const;

  const Context &context_;
  LibraryConfig config_;
  std::deque<Architecture> architectures_;  // the last is compiled for
  KernelCache cache_;
  std::map<std::string, LoadedUnit> loaded_;
};

}  // namespace bonsai::cuda
