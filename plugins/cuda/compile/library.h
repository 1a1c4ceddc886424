// The kernels of one device: compiled or taken from the cache when they are first asked for.
#pragma once

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
  int capability = 0;           // of the device, 10 major + minor
  NvrtcResult nvrtc;            // without NVRTC, what is in the cache still runs
  std::string cache_directory;  // kernel_cache_directory(); empty: no cache
  Log log;
  std::span<const Unit> units = bonsai::cuda::units();
  std::span<const KernelFile> files = kernel_files();
};

// One line if no kernel at all can be had: there is no NVRTC, and the cache keeps none for the device. Else empty.
std::string why_no_kernels(const LibraryConfig &config);

// [device] Calls need the context to be current, and are serialised by whoever owns it.
class KernelLibrary {
 public:
  // Throws UNSUPPORTED if NVRTC compiles for newer devices alone, or if there are no kernels to be had.
  KernelLibrary(const Context &context, LibraryConfig config);

  const Architecture &architecture() const { return architecture_; }

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

  CompileJob job(const Unit &unit) const {
    return {.unit = unit, .architecture = architecture_, .files = config_.files};
  }
  void warn_of_newer_nvrtc() const;
  // False: nothing of it is kept, or the driver refuses what is, with the reasons in *why.
  bool load_cached(const Unit &unit, std::string *why);
  // The newest that is kept and that the driver takes, if there is one.
  std::optional<LoadedUnit> load_of_any_nvrtc(const Unit &unit, std::string *why);
  [[noreturn]] void refuse_to_compile(const Unit &unit, const std::string &why);
  [[noreturn]] void fail_to_load(const Unit &unit, const std::string &why) const;
  std::vector<Binary> compile_all(std::span<const Unit *const> missing);
  // Loads the cubin, or the PTX where the driver refuses it; nothing, with the reasons added to *why, if it refuses
  // both.
  std::optional<LoadedUnit> load(const Binary &binary, std::string *why) const;

  const Context &context_;
  LibraryConfig config_;
  Architecture architecture_;
  KernelCache cache_;
  std::map<std::string, LoadedUnit> loaded_;
};

}  // namespace bonsai::cuda
