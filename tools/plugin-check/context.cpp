#include "tools/plugin-check/context.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "host/backend/shared_object.h"
#include "tools/plugin-check/call_trace.h"
#include "tools/plugin-check/environment.h"

namespace bonsai::check {

bonsai_error empty_error() {
  bonsai_error error{};
  error.struct_size = sizeof error;
  return error;
}

namespace {

std::string_view message_of(const bonsai_error &error) {
  return {error.message, strnlen(error.message, sizeof error.message)};
}

}  // namespace

std::string status_name(bonsai_status status) {
  constexpr std::array kNames = {"BONSAI_OK",          "BONSAI_INVALID_ARGUMENT",
                                 "BONSAI_UNSUPPORTED", "BONSAI_OUT_OF_MEMORY",
                                 "BONSAI_DEVICE_LOST", "BONSAI_INTERNAL"};
  return fmt::format("{} ({})", status, status < kNames.size() ? kNames[status] : "unknown");
}

void expect_ok(const char *call, bonsai_status status, const bonsai_error &error) {
  expect(status == BONSAI_OK, "{} failed with status {}: {}", call, status_name(status), message_of(error));
}

void expect_served(const char *call, bonsai_status status, const bonsai_error &error) {
  skip_unless(status != BONSAI_UNSUPPORTED, "{} refuses such a model: {}", call, message_of(error));
  expect_ok(call, status, error);
}

bonsai_device_status status_of(const host::Device &device) {
  bonsai_device_status status{};
  status.struct_size = sizeof status;
  if (!device.api().device_status) return status;
  bonsai_error error = empty_error();
  expect_ok("device_status", device.api().device_status(device.handle(), &status, &error), error);
  return status;
}

bool is_float(quant::Format format) {
  return format == quant::Format::kF32 || format == quant::Format::kF16 || format == quant::Format::kBF16;
}

double error_bound(quant::Format format) { return is_float(format) ? kFloatBound : kQuantizedBound; }

namespace {

// The same, with the plugin's path before the message: it is what a person gave, and may have mistyped.
template <class R>
auto value_of(R result, const std::filesystem::path &path) {
  if (!result) failed("{}: {}", path.string(), result.error().message);
  return *std::move(result);
}

// By itself first: the host puts the environment back that a library leaves. What is wrong with the file, it says.
std::shared_ptr<const host::Backend> load(const std::filesystem::path &path) {
  if (host::check_shared_object(path)) {
    const KeptEnvironment kept("loading the library");
    dlopen(path.c_str(), RTLD_NOW | RTLD_NODELETE);
  }
  return value_of(host::Backend::load(path), path);
}

}  // namespace

Context::Context(const Plugin &plugin) : plugin_(plugin), backend_(traced(load(plugin.path))) {
  device_ = open_another();
}

bool Context::is_newer() const {
  return api().abi_minor > BONSAI_ABI_MINOR || api().struct_size > sizeof(bonsai_backend_api);
}

std::unique_ptr<host::Device> Context::open_another() const {
  return value_of(open_with(plugin_.options), plugin_.path);
}

host::BackendResult<std::unique_ptr<host::Device>> Context::open_with(
    const std::vector<host::DeviceOption> &options) const {
  return host::Device::open(backend_, plugin_.device, options, {});
}

bonsai_weight_use Context::uses(quant::Format format) const {
  return value_of(device_->dtype_support(static_cast<bonsai_dtype>(format)));
}

quant::Format Context::plainest_format() const {
  for (const quant::Format format : {quant::Format::kF32, quant::Format::kF16, quant::Format::kBF16}) {
    if (multiplies(format)) return format;
  }
  for (const quant::FormatTraits &traits : quant::formats()) {
    if (multiplies(traits.format)) return traits.format;
  }
  throw Failed("dtype_support claims no dtype for matrices, expected at least one");
}

bool Context::stores(bonsai_kv_dtype dtype) const {
  const auto &offered = info().kv_dtypes;
  return std::find(offered.begin(), offered.end(), dtype) != offered.end();
}

bonsai_kv_dtype Context::plainest_kv() const {
  for (const bonsai_kv_dtype dtype : {BONSAI_KV_F32, BONSAI_KV_F16, BONSAI_KV_Q8_0}) {
    if (stores(dtype)) return dtype;
  }
  throw Failed("device_info lists no KV dtype, although sessions are offered");
}

void Context::need(Path path) const {
  skip_unless(api().session_create != nullptr, "the backend offers level 0 only: it has no sessions");
  if (path == Path::kForward) {
    skip_unless(api().forward_submit != nullptr, "the backend offers level 1 only: it has no forward passes");
  }
}

void Context::need_forward_with_tokens() const {
  need(Path::kForward);
  skip_unless(looks_up(plainest_format()), "{} embeddings are not claimed", quant::traits(plainest_format()).name);
}

Path Context::best_path() const {
  need_sessions();
  return api().forward_submit ? Path::kForward : Path::kLayers;
}

const char *kv_name(bonsai_kv_dtype dtype) {
  switch (dtype) {
    case BONSAI_KV_F16:
      return "f16";
    case BONSAI_KV_Q8_0:
      return "q8_0";
    case BONSAI_KV_F32:
      return "f32";
    default:
      return "unknown";
  }
}

}  // namespace bonsai::check
