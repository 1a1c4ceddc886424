// Choosing how a model runs on its device.
#include "host/runtime/executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "host/backend/registry.h"
#include "host/runtime/batch_check.h"
#include "host/runtime/composer.h"
#include "host/runtime/session_executor.h"

namespace bonsai::host {
namespace {

tl::unexpected<BackendError> error(bonsai_status status, std::string message) {
  return tl::unexpected(BackendError{status, std::move(message)});
}

BackendResult<void> check_sizes(const ExecutorConfig &config) {
  const std::pair<const char *, uint32_t> sizes[] = {{"context", config.context},
                                                     {"n_blocks", config.n_blocks},
                                                     {"block_size", config.block_size},
                                                     {"max_tokens", config.max_tokens},
                                                     {"max_sequences", config.max_sequences},
                                                     {"max_blocks_per_sequence", config.max_blocks_per_sequence},
                                                     {"max_outputs", config.max_outputs}};
  for (const auto &[name, value] : sizes) {
    if (value > 0) continue;
    return tl::unexpected(
        BackendError{BONSAI_INVALID_ARGUMENT, fmt::format("{} is 0, expected at least 1", name), true});
  }
  return {};
}

// What sessions on the device offer.
BackendResult<void> check_session(const Device &device, const ExecutorConfig &config) {
  const DeviceInfo &info = device.info();
  if (std::find(info.kv_dtypes.begin(), info.kv_dtypes.end(), config.kv_dtype) == info.kv_dtypes.end()) {
    std::vector<std::string> names;
    for (const bonsai_kv_dtype dtype : info.kv_dtypes) names.push_back(kv_dtype_name(dtype));
    return error(BONSAI_UNSUPPORTED, fmt::format("{}: no {} KV cache; it offers: {}", device.backend().name(),
                                                 kv_dtype_name(config.kv_dtype),
                                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const auto &sizes = info.block_sizes;
  if (std::find(sizes.begin(), sizes.end(), config.block_size) == sizes.end()) {
    return error(BONSAI_UNSUPPORTED,
                 fmt::format("{}: no KV blocks of {} tokens; it offers: {}", device.backend().name(), config.block_size,
                             sizes.empty() ? "none" : fmt::format("{}", fmt::join(sizes, ", "))));
  }
  return {};
}

// What the composer's own KV cache holds.
BackendResult<void> check_composed(const model::Config &model, const ExecutorConfig &config) {
  if (config.kv_dtype > BONSAI_KV_F32) {
    return error(BONSAI_UNSUPPORTED,
                 fmt::format("no {} cache; there are: f16, q8_0, f32", kv_dtype_name(config.kv_dtype)));
  }
  const uint32_t group = quant::traits(quant::Format::kQ8_0).block_weights;
  if (config.kv_dtype == BONSAI_KV_Q8_0 && model.head_dim % group != 0) {
    return error(BONSAI_UNSUPPORTED,
                 fmt::format("a q8_0 KV cache needs a head_dim that {} divides, found {}", group, model.head_dim));
  }
  return {};
}

}  // namespace

void Output::select(Selection wanted) {
  selection = std::move(wanted);
  kind = selection.k > 0 ? OutputKind::kTop : OutputKind::kLogits;
}

BackendResult<void> Executor::submit(const Batch &, Output) {
  return error(BONSAI_UNSUPPORTED, "passes are not chained at this level");
}

BackendResult<Output> Executor::wait() { return error(BONSAI_UNSUPPORTED, "passes are not chained at this level"); }

BackendResult<std::unique_ptr<Executor>> make_executor(const DeviceModel &model, const ExecutorConfig &config,
                                                       int level) {
  auto checked = check_sizes(config);
  if (!checked) return tl::unexpected(checked.error());
  const Backend &backend = model.device().backend();
  const int chosen = level < 0 ? backend.level() : level;
  if (chosen > backend.level()) {
    return error(BONSAI_UNSUPPORTED, fmt::format("{}: level {} is not offered, the highest is {}", backend.name(),
                                                 chosen, backend.level()));
  }
  checked = chosen == 0 ? check_composed(model.model().config, config) : check_session(model.device(), config);
  if (!checked) return tl::unexpected(checked.error());
  if (chosen == 0) return std::make_unique<Composer>(model, config);
  return SessionExecutor::create(model, config, chosen);
}

}  // namespace bonsai::host
