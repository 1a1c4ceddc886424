// What a check is given, and how it answers.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/quant/format.h"
#include "host/backend/registry.h"
#include "tools/plugin-check/check.h"

namespace bonsai::check {

// Ends a check that found a fault; what() is one line for the finding.
struct Failed : std::runtime_error {
  using runtime_error::runtime_error;
};

// Ends a check of something that the backend does not offer.
struct Skipped : std::runtime_error {
  using runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void failed(fmt::format_string<Args...> format, Args &&...args) {
  throw Failed(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void expect(bool kept, fmt::format_string<Args...> format, Args &&...args) {
  if (!kept) throw Failed(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void skip_unless(bool offered, fmt::format_string<Args...> format, Args &&...args) {
  if (!offered) throw Skipped(fmt::format(format, std::forward<Args>(args)...));
}

// The value of a Result or BackendResult; its message fails the check.
template <class R>
auto value_of(R result) {
  if (!result) throw Failed(result.error().message);
  return *std::move(result);
}

// The same of what is made of a well-formed model or weight. A shape that the backend does not serve, which it may,
// skips the check.
template <class R>
auto value_if_served(host::BackendResult<R> result) {
  if (!result && result.error().status == BONSAI_UNSUPPORTED) throw Skipped(result.error().message);
  return value_of(std::move(result));
}

// Does what must not skip the check: a refusal is a fault. `served` says what of.
template <class Work>
void expect_served_all_the_same(const char *served, Work work) {
  try {
    work();
  } catch (const Skipped &skipped) {
    failed("{}; expected {} to be served", skipped.what(), served);
  }
}

// One check's work on one shape after another: those that the backend does not serve are left out, and skip the check
// only where none is left.
class Shapes {
 public:
  template <class Work>
  void run(Work work) {
    try {
      work();
      any_served_ = true;
    } catch (const Skipped &skipped) {
      why_ = skipped.what();
    }
  }
  void finish() const {
    if (!any_served_) throw Skipped(why_);
  }

 private:
  bool any_served_ = false;
  std::string why_;
};

// A bonsai_error ready to be filled.
bonsai_error empty_error();

// "1 (BONSAI_INVALID_ARGUMENT)"
std::string status_name(bonsai_status status);

// Fails the check unless `status` is BONSAI_OK.
void expect_ok(const char *call, bonsai_status status, const bonsai_error &error);

// The same of a call with a well-formed model: skips the check where the backend does not serve its shape.
void expect_served(const char *call, bonsai_status status, const bonsai_error &error);

// What device_status says, zeros where it is not offered.
bonsai_device_status status_of(const host::Device &device);

// The relative L2 error that is allowed. A plugin does not say whether it multiplies quantised weights with 8-bit
// activations, so all of them are judged as if.
inline constexpr double kFloatBound = 1e-4;
inline constexpr double kQuantizedBound = 2e-2;
inline constexpr double kCacheBound = 5e-3;  // where a Q8_0 cache is all that is quantised
bool is_float(quant::Format format);
double error_bound(quant::Format format);

// How a session's batches run: level 2's forward, or level 1's layers one by one.
enum class Path { kForward, kLayers };

// A loaded plugin with one open device, for the time of a check.
class Context {
 public:
  explicit Context(const Plugin &plugin);

  host::Device &device() const { return *device_; }
  const bonsai_backend_api &api() const { return device_->api(); }
  const host::DeviceInfo &info() const { return device_->info(); }
  // Whether the backend may know more of the ABI than this program does.
  bool is_newer() const;
  bool has(bonsai_features feature) const { return (info().features & feature) != 0; }

  const Plugin &plugin() const { return plugin_; }

  // Another device of the same plugin, opened alike, or with other options.
  std::unique_ptr<host::Device> open_another() const;
  host::BackendResult<std::unique_ptr<host::Device>> open_with(const std::vector<host::DeviceOption> &options) const;

  bonsai_weight_use uses(quant::Format format) const;
  bool multiplies(quant::Format format) const { return (uses(format) & BONSAI_USE_MATRIX) != 0; }
  bool looks_up(quant::Format format) const { return (uses(format) & BONSAI_USE_EMBEDDING) != 0; }
  // What the shape of a computation is checked with, where the format does not matter: the most exact that is claimed.
  quant::Format plainest_format() const;
  // The same for the KV cache.
  bonsai_kv_dtype plainest_kv() const;
  bool stores(bonsai_kv_dtype dtype) const;

  // Skips the check where the backend has no sessions, or no forward passes.
  void need(Path path) const;
  void need_sessions() const { need(Path::kLayers); }
  // Skips it where passes cannot be told their tokens by id.
  void need_forward_with_tokens() const;
  // The highest path that is offered; skips the check where there are no sessions.
  Path best_path() const;

 private:
  Plugin plugin_;
  std::shared_ptr<const host::Backend> backend_;
  std::unique_ptr<host::Device> device_;
};

// One line each, named "kv f16" and the like in findings.
const char *kv_name(bonsai_kv_dtype dtype);

}  // namespace bonsai::check
