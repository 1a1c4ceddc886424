#include "host/engine/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "host/backend/registry.h"

namespace bonsai::host {
namespace {

constexpr uint32_t kPreferredBlockSize = 32;

// At level 0 the host keeps the KV cache, whatever block sizes the device lists.
uint32_t choose_block_size(const Device &device) {
  const auto &sizes = device.info().block_sizes;
  const bool takes_preferred = std::find(sizes.begin(), sizes.end(), kPreferredBlockSize) != sizes.end();
  const bool is_free = device.backend().level() == 0 || sizes.empty();
  return is_free || takes_preferred ? kPreferredBlockSize : sizes.front();
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// NaN compares false.
bool are_below_infinity(std::span<const float> numbers) {
  bool below = true;
  for (const float x : numbers) below &= x < kInfinity;
  return below;
}

bool are_numbers(std::span<const float> numbers) {
  return std::none_of(numbers.begin(), numbers.end(), [](float x) { return std::isnan(x); });
}

bool has_finite(std::span<const float> numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](float x) { return x > -kInfinity; });
}

// Whether the caller forbids single tokens, and so perhaps all. A mask leaves some.
bool forbids(const Selection &selection) { return std::ranges::find(selection.add, -kInfinity) != selection.add.end(); }

// What the caller adds may go beyond what a float holds.
bool top_makes_sense(const TopLogits &top, const Selection &selection) {
  if (selection.ids.empty() && !are_below_infinity(top.logits)) return false;
  return are_numbers(top.logits) && (forbids(selection) || has_finite(top.logits));
}

bool makes_sense(const Output &output) {
  switch (output.kind) {
    case OutputKind::kLogits:
      return are_below_infinity(output.logits) && has_finite(output.logits);
    case OutputKind::kTop:
      return top_makes_sense(output.top, output.selection);
    case OutputKind::kHidden:
      return std::all_of(output.hidden.begin(), output.hidden.end(), [](float x) { return std::isfinite(x); });
  }
  return true;
}

}  // namespace

bool is_backends_fault(const BackendError &error) { return !error.is_callers_fault; }

bool is_cpu(const Backend &backend) { return backend.name() == kCpuBackend; }

Placement::Placement(std::unique_ptr<Device> device, const ExecutorConfig &sizes)
    : executor_config_(sizes), device_(std::move(device)) {
  executor_config_.block_size = choose_block_size(*device_);
  executor_config_.n_blocks = (sizes.context + executor_config_.block_size - 1) / executor_config_.block_size;
  executor_config_.max_blocks_per_sequence = executor_config_.n_blocks;
}

// The last owner is gone, so no other thread is in here.
Placement::~Placement() = default;

BackendResult<std::shared_ptr<Placement>> Placement::create(const model::Model &model, std::unique_ptr<Device> device,
                                                            const ExecutorConfig &sizes,
                                                            const UploadProgress &progress) {
  std::shared_ptr<Placement> placement(new Placement(std::move(device), sizes));
  auto started = placement->start(model, progress);
  if (!started) return tl::unexpected(std::move(started.error()));
  return placement;
}

BackendResult<void> Placement::start(const model::Model &model, const UploadProgress &progress) {
  auto uploaded = DeviceModel::upload(model, *device_, progress);
  if (!uploaded) return tl::unexpected(std::move(uploaded.error()));
  device_model_ = *std::move(uploaded);
  auto executor = host::make_executor(*device_model_, executor_config_);
  if (!executor) return tl::unexpected(std::move(executor.error()));
  spare_executor_ = *std::move(executor);
  session_bytes_ = spare_executor_->memory_bytes();
  if (!spare_executor_->chains()) return {};
  const auto status = device_->status();
  if (!status) return tl::unexpected(status.error());
  runs_elsewhere_ = status->threads == 0;
  return {};
}

// One call on the device, which returns a BackendResult; on a lost device, the error that said so.
template <class Call>
auto Placement::on_device(Call call) -> decltype(call()) {
  const std::lock_guard lock(mutex_);
  if (lost_) return tl::unexpected(*lost_);
  auto result = call();
  if (!result && result.error().status == BONSAI_DEVICE_LOST) lost_ = result.error();
  return result;
}

Device::Status Placement::status() {
  Device::Status status = on_device([&] { return device_->status(); }).value_or(Device::Status());
  if (device_->api().device_status != nullptr) return status;
  status.weight_bytes = device_model_->weight_bytes();
  status.borrowed_bytes = device_model_->borrowed_bytes();
  return status;
}

BackendResult<std::optional<std::vector<Device::Phase>>> Placement::profile(bonsai_profile_action action) {
  return on_device([&] { return device_->profile(action); });
}

void Discard::operator()(Executor *executor) const noexcept {
  const std::lock_guard lock(placement->mutex_);
  delete executor;
}

BackendResult<LentExecutor> Placement::take_executor() {
  return on_device([&]() -> BackendResult<LentExecutor> {
    if (spare_executor_) return lend(std::move(spare_executor_));
    return host::make_executor(*device_model_, executor_config_).map([&](auto made) { return lend(std::move(made)); });
  });
}

void Placement::give_back(LentExecutor executor) {
  const std::lock_guard lock(mutex_);
  if (!retired_ && !spare_executor_) spare_executor_.reset(executor.release());
}

BackendResult<void> Placement::forward(Executor &executor, const Batch &batch, std::span<Output> outputs) {
  auto done = on_device([&] { return executor.forward(batch, outputs); });
  return done ? check_numbers(outputs) : done;
}

// What the CPU computes is what the model says, and whoever wants a number of it says what is wrong with NaN.
BackendResult<void> Placement::check_numbers(std::span<const Output> outputs) const {
  if (is_cpu(backend()) || std::all_of(outputs.begin(), outputs.end(), makes_sense)) return {};
  return tl::unexpected(BackendError{
      BONSAI_INTERNAL, fmt::format("{}: NaN or infinity among what it computed, expected numbers", backend().name())});
}

BackendResult<void> Placement::submit(Executor &executor, const Batch &batch, Output output) {
  return on_device([&] { return executor.submit(batch, std::move(output)); });
}

BackendResult<Output> Placement::wait(Executor &executor) {
  auto output = on_device([&] { return executor.wait(); });
  if (!output) return output;
  if (auto checked = check_numbers({&*output, 1}); !checked) return tl::unexpected(std::move(checked.error()));
  return output;
}

void Placement::drop(Executor &executor) {
  const std::lock_guard lock(mutex_);
  while (!lost_ && executor.n_in_flight() > 0) {
    const auto done = executor.wait();
    if (!done && done.error().status == BONSAI_DEVICE_LOST) lost_ = done.error();
  }
}

BackendResult<LentExecutor> Placement::make_executor(const ExecutorConfig &sizes) {
  return on_device([&] {
    auto made = host::make_executor(*device_model_, sizes);
    if (!made && made.error().status == BONSAI_OUT_OF_MEMORY && spare_executor_) {
      spare_executor_.reset();
      made = host::make_executor(*device_model_, sizes);
    }
    return std::move(made).map([&](auto executor) { return lend(std::move(executor)); });
  });
}

BackendResult<void> Placement::kv_copy(Executor &executor, std::span<const uint32_t> sources,
                                       std::span<const uint32_t> destinations) {
  return on_device([&] { return executor.kv_copy(sources, destinations); });
}

BackendResult<void> Placement::kv_export(Executor &executor, std::span<const uint32_t> blocks, uint32_t n_tokens,
                                         std::span<std::byte> data) {
  return on_device([&] { return executor.kv_export(blocks, n_tokens, data); });
}

BackendResult<void> Placement::kv_import(Executor &executor, std::span<const uint32_t> blocks, uint32_t n_tokens,
                                         std::span<const std::byte> data) {
  return on_device([&] { return executor.kv_import(blocks, n_tokens, data); });
}

void Placement::drop_reserve() {
  const std::lock_guard lock(mutex_);
  spare_executor_.reset();
}

void Placement::retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  spare_executor_.reset();
}

}  // namespace bonsai::host
