#include "plugins/cuda/compile/library.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "core/base/available_cores.h"

namespace bonsai::cuda {
namespace {

Architecture choose(int capability, const Nvrtc *nvrtc) {
  return nvrtc ? choose_architecture(capability, nvrtc->architectures) : choose_architecture(capability, {});
}

// A unit that is kept and suits, whichever NVRTC made it: what it had to compile for follows from what it knew, too.
bool has_usable(KernelCache &cache, const LibraryConfig &config, const Unit &unit,
                const std::function<bool(const Binary &)> &suits) {
  const std::vector<Architecture> architectures = usable_architectures(config.capability);
  const CompileJob job = {.unit = unit, .architecture = architectures[0], .files = config.files};
  return cache.load_any(digests_of(job, architectures), suits).has_value();
}

// What helps where a driver may refuse, or refuses, what a newer NVRTC makes; empty where NVRTC is not newer.
std::string advice_for(int nvrtc_version, int driver_version) {
  if (nvrtc_version <= driver_version) return {};
  const bool is_of_its_major = nvrtc_version / 1000 == driver_version / 1000;
  return fmt::format("install NVRTC {}, or a newer driver",
                     is_of_its_major ? version_name(driver_version) : fmt::to_string(driver_version / 1000));
}

// Runs body(0) to body(n - 1) on as many threads as there are cores, or fewer where the system starts no more. The
// first exception ends it and is thrown.
template <class Body>
void in_parallel(size_t n, const Body &body) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> has_failed = false;
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i = next++; i < n && !has_failed; i = next++) {
      try {
        body(i);
      } catch (...) {
        if (!has_failed.exchange(true)) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const size_t threads = std::min(n, static_cast<size_t>(available_cores()));
    try {
      for (size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    } catch (const std::system_error &) {
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::string why_no_kernels(const LibraryConfig &config) {
  if (config.nvrtc.nvrtc && !config.proved_nvrtc) return {};
  KernelCache cache(config.cache_directory, config.log);
  for (const Unit &unit : config.units) {
    if (has_usable(cache, config, unit, [](const Binary &) { return true; })) return {};
  }
  const NvrtcResult proved = config.proved_nvrtc ? config.proved_nvrtc() : config.nvrtc;
  if (proved.nvrtc) return {};
  const std::string complaint = cache.complaint();
  return fmt::format("no kernels for {} are kept{}{}{}, and none can be compiled: {}",
                     choose(config.capability, nullptr).name, config.cache_directory.empty() ? "" : " in ",
                     config.cache_directory, complaint.empty() ? "" : fmt::format(" (not used: {})", complaint),
                     proved.reason);
}

KernelLibrary::KernelLibrary(const Context &context, LibraryConfig config)
    : context_(context),
      config_(std::move(config)),
      architectures_{choose(config_.capability, config_.nvrtc.nvrtc.get())},
      cache_(config_.cache_directory, config_.log) {
  if (const std::string why = why_no_kernels(config_); !why.empty()) refuse("{}", why);
  warn_of_newer_nvrtc();
}

// Within a major version, drivers load what newer compilers make for the device itself.
void KernelLibrary::warn_of_newer_nvrtc() const {
  const Nvrtc *nvrtc = config_.nvrtc.nvrtc.get();
  const int driver = context_.driver().version();
  if (!config_.log || !nvrtc || nvrtc->version / 1000 <= driver / 1000) return;
  config_.log(BONSAI_LOG_WARNING,
              fmt::format("cuda: NVRTC {} is newer than the driver, for CUDA {}, which may refuse what it makes: {}",
                          version_name(nvrtc->version), version_name(driver), advice_for(nvrtc->version, driver)));
}

bool KernelLibrary::prove_nvrtc() {
  if (!config_.proved_nvrtc) return false;
  NvrtcResult proved = config_.proved_nvrtc();
  const bool is_another = proved.nvrtc != config_.nvrtc.nvrtc;
  if (is_another) architectures_.push_back(choose(config_.capability, proved.nvrtc.get()));
  config_.nvrtc = std::move(proved);
  config_.proved_nvrtc = {};
  if (is_another) warn_of_newer_nvrtc();
  return is_another;
}

Function &KernelLibrary::LoadedUnit::function(const std::string &kernel) {
  const auto found = functions.find(kernel);
  if (found != functions.end()) return found->second;
  return functions.emplace(kernel, module->function(kernel)).first->second;
}

std::optional<KernelLibrary::LoadedUnit> KernelLibrary::load(const Binary &binary, std::string *why) const {
  for (const std::string *image : {&binary.cubin, &binary.ptx}) {
    if (image->empty()) continue;
    std::string refusal;
    if (auto module = Module::load(context_, *image, &refusal)) {
      LoadedUnit unit = {.module = std::move(module), .functions = {}};
      for (const std::string &kernel : kernel_names(binary.ptx)) unit.function(kernel);
      return unit;
    }
    *why += (why->empty() ? "" : "; ") + refusal;
  }
  return std::nullopt;
}

std::optional<KernelLibrary::LoadedUnit> KernelLibrary::load_of_any_nvrtc(const Unit &unit, std::string *why) {
  std::optional<LoadedUnit> loaded;
  has_usable(cache_, config_, unit, [&](const Binary &binary) {
    loaded = load(binary, why);
    return loaded.has_value();
  });
  return loaded;
}

bool KernelLibrary::load_cached(const Unit &unit, std::string *why) {
  std::optional<LoadedUnit> loaded;
  if (const Nvrtc *nvrtc = config_.nvrtc.nvrtc.get()) {
    const auto binary = cache_.load({digest_of(job(unit)), nvrtc->version});
    if (!binary) return false;  // what this one makes comes before what another has made
    loaded = load(*binary, why);
  }
  // Also where the driver refuses what this one has made: it would refuse it again.
  if (!loaded) loaded = load_of_any_nvrtc(unit, why);
  if (!loaded) return false;
  loaded_.emplace(unit.name, std::move(*loaded));
  return true;
}

void KernelLibrary::refuse_to_compile(const Unit &unit, const std::string &why) {
  std::string kept;
  if (!why.empty()) {
    kept = fmt::format("the driver, for CUDA {}, refuses what is kept of it: {}; and ",
                       version_name(context_.driver().version()), why);
  } else if (const std::string complaint = cache_.complaint(); !complaint.empty()) {
    kept = fmt::format("what is kept is not used: {}; and ", complaint);
  }
  refuse("{} must be compiled for {}: {}{}", unit.name, architecture().name, kept, config_.nvrtc.reason);
}

void KernelLibrary::fail_to_load(const Unit &unit, const std::string &why) const {
  const int nvrtc = config_.nvrtc.nvrtc->version, driver = context_.driver().version();
  const std::string advice = advice_for(nvrtc, driver);
  throw Failure(BONSAI_INTERNAL, fmt::format("the driver, for CUDA {}, refuses what NVRTC {} made of {} for {}: {}{}{}",
                                             version_name(driver), version_name(nvrtc), unit.name, architecture().name,
                                             why, advice.empty() ? "" : "; ", advice));
}

std::vector<Binary> KernelLibrary::compile_all(std::span<const Missing> missing) {
  const Nvrtc &nvrtc = *config_.nvrtc.nvrtc;
  std::vector<Binary> binaries(missing.size());
  in_parallel(missing.size(), [&](size_t i) {
    if (config_.log) {
      config_.log(BONSAI_LOG_INFO,
                  fmt::format("cuda: compiling kernels for {}, {} of {}", architecture().name, i + 1, missing.size()));
    }
    const CompileJob compile_job = job(*missing[i].unit);
    binaries[i] = compile(nvrtc, compile_job);
    cache_.store({digest_of(compile_job), nvrtc.version}, binaries[i]);
  });
  return binaries;
}

std::vector<KernelLibrary::Missing> KernelLibrary::load_kept(std::span<const std::string> names) {
  std::vector<Missing> missing;
  for (const std::string &name : names) {
    const Unit &unit = find_unit(config_.units, name);
    const bool is_asked_twice = std::ranges::find(missing, &unit, &Missing::unit) != missing.end();
    std::string why;
    if (loaded_.contains(name) || is_asked_twice || load_cached(unit, &why)) continue;
    missing.push_back({&unit, std::move(why)});
  }
  return missing;
}

void KernelLibrary::prepare(std::span<const std::string> names) {
  std::vector<Missing> missing = load_kept(names);
  if (!missing.empty() && prove_nvrtc()) missing = load_kept(names);  // of that one, or of any
  if (missing.empty()) return;
  if (!config_.nvrtc.nvrtc) refuse_to_compile(*missing[0].unit, missing[0].why);
  const std::vector<Binary> binaries = compile_all(missing);
  for (size_t i = 0; i < missing.size(); ++i) {
    const Unit &unit = *missing[i].unit;
    std::string why;
    std::optional<LoadedUnit> loaded = load(binaries[i], &why);
    std::string why_not_kept;
    if (!loaded) loaded = load_of_any_nvrtc(unit, &why_not_kept);
    if (!loaded) fail_to_load(unit, why);
    loaded_.emplace(unit.name, std::move(*loaded));
  }
}

Function &KernelLibrary::function(const std::string &unit, const std::string &kernel) {
  prepare({&unit, 1});
  return loaded_.at(unit).function(kernel);
}

}  // namespace bonsai::cuda
