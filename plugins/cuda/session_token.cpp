// All layers of a single token in one launch (kernels/token_layers.cu).

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/cuda/layout/packed_matrix.h"
#include "plugins/cuda/session.h"

namespace bonsai::cuda {
namespace {

constexpr std::array<Projection, kLayerProducts> kProjections = {Projection::kQkv, Projection::kO, Projection::kGateUp,
                                                                 Projection::kDown};

// The matrix that a projection is, from its first row on; null if it has several.
const PackedMatrix *whole_matrix(const std::vector<MatrixRows> &rows) {
  return rows.size() == 1 && rows[0].first_row == 0 && rows[0].output == 0 ? rows[0].matrix : nullptr;
}

// Whether every projection of every layer is one matrix, and all are packed alike.
bool has_one_format(const Model &model) {
  const PackedMatrix *first = whole_matrix(model.layer(0).rows(Projection::kQkv));
  for (uint32_t i = 0; i < model.shape().layers; ++i) {
    for (const Projection projection : kProjections) {
      const PackedMatrix *matrix = whole_matrix(model.layer(i).rows(projection));
      if (!matrix || kernel_format(matrix->format) != kernel_format(first->format)) return false;
    }
  }
  return true;
}

LayerPointers pointers_of(const Layer &layer) {
  LayerPointers pointers = {};
  for (uint32_t i = 0; i < kLayerProducts; ++i)
    pointers.weights[i] = whole_matrix(layer.rows(kProjections[i]))->storage.data();
  pointers.norms[kQkvProduct] = layer.attn_norm;
  pointers.norms[kGateUpProduct] = layer.ffn_norm;
  pointers.biases[kOProduct] = layer.o_bias;
  pointers.qkv_bias = layer.qkv_bias;
  pointers.q_norm = layer.q_norm;
  pointers.k_norm = layer.k_norm;
  return pointers;
}

}  // namespace

// How all layers are launched at once, if that is asked for and there is a kernel for it.
std::optional<TokenPlan> Session::plan_layers() const {
  const ModelShape &model = shape_.model;
  const bool is_asked_for = device_.fusion() == Fusion::kLayers || device_.fusion() == Fusion::kAuto;
  if (!is_asked_for || !device_.description().has_cooperative_launch) return std::nullopt;
  if (model.layers == 0 || !has_one_format(model_)) return std::nullopt;
  return plan_token({.format = model_.layer(0).rows(Projection::kQkv)[0].matrix->format,
                     .hidden = model.hidden,
                     .qkv_rows = model.qkv_rows(),
                     .q_rows = model.q_rows(),
                     .ffn = model.ffn,
                     .kv_dtype = shape_.pool().dtype,
                     .padded_head_dim = padded_head_dim(model.head_dim),
                     .attention_shared_bytes = planner_.narrow_shared_bytes()},
                    device_.matmul_device());
}

LaunchShape Session::token_launch() const {
  return {.grid = {token_plan_->blocks, 1, 1},
          .threads = kTokenThreads,
          .shared_bytes = token_plan_->shared_bytes,
          .is_cooperative = true};
}

// Why layers cannot be launched at once after all; empty if they can. It is known when the kernel is compiled, and when
// the driver has taken a launch of it, of no layers: a process may be given fewer multiprocessors than the device says
// that it has (MPS), and blocks that wait for each other must all run.
std::string Session::why_not_at_once() {
  constexpr const char *kNone = "there is no kernel for all of this model's on this device";
  if (!token_plan_ || !device_.fits(token_plan_->unit, kTokenKernel, token_launch())) return kNone;
  try {
    device_.launch(token_plan_->unit, kTokenKernel, token_launch(), TokenLayersArguments{});
  } catch (const Failure &failure) {
    if (failure.status() != BONSAI_INTERNAL) throw;
    return fmt::format("the driver does not launch them at once: {}", failure.what());
  }
  return {};
}

void Session::prepare_layers_at_once() {
  const bool was_planned = token_plan_.has_value();
  if (const std::string why = why_not_at_once(); !why.empty()) {
    token_plan_.reset();
    if ((was_planned || device_.fusion() == Fusion::kLayers) && device_.log()) {
      device_.log()(BONSAI_LOG_INFO, fmt::format("cuda: layers run one by one, as {}", why));
    }
    return;
  }
  device_.stream().fill(scratch(layout_.grid_barrier), 0, sizeof(unsigned));
  device_.prepare_for_profile(token_plan_->timed_unit);
  std::vector<LayerPointers> pointers;
  for (uint32_t i = 0; i < shape_.model.layers; ++i) pointers.push_back(pointers_of(model_.layer(i)));
  run_to_end(device_.stream(), [&] {
    device_.stream().upload(scratch(layout_.layer_pointers), pointers.data(), pointers.size() * sizeof(LayerPointers));
  });
}

bool Session::may_run_at_once(const Staged &staged) const {
  return token_plan_ && staged.shape.n_tokens == 1 && staged.attention.may_prepare;
}

// How the layers of what is staged run. Where that is being tried, and a pass ends with the slot's event, it is
// measured.
Way Session::choose_way(const Staged &staged, Slot &slot) {
  slot.measured.reset();
  if (!may_run_at_once(staged)) return Way::kApart;
  if (device_.fusion() == Fusion::kLayers) return Way::kAtOnce;
  const bool is_pass = &slot != &own_slot() && !device_.profile().is_on();
  if (!is_pass) return trial_.winner().value_or(Way::kApart);
  const Way way = trial_.next();
  if (trial_.measures()) slot.measured = way;
  return way;
}

// Tells the trial how long the slot's token took, which has run.
void Session::note_way(Slot &slot) {
  const std::optional<Way> way = std::exchange(slot.measured, std::nullopt);
  if (!way || !token_plan_ || trial_.winner()) return;
  trial_.note(*way, slot.done.seconds_since(slot.begun));
  if (!trial_.winner() || !device_.log()) return;
  device_.log()(BONSAI_LOG_DEBUG,
                fmt::format("cuda: a token takes {:.0f} us with a kernel for each step and {:.0f} us with one for all "
                            "layers; the session goes on with the {}",
                            1e6 * trial_.median_seconds(Way::kApart), 1e6 * trial_.median_seconds(Way::kAtOnce),
                            *trial_.winner() == Way::kAtOnce ? "latter" : "former"));
}

// Has layers run one by one from here on, those of what is staged too, and says so in the log; false if these do so
// already.
bool Session::stop_at_once(const std::string &why, Staged &staged, Slot &slot) {
  if (std::exchange(staged.way, Way::kApart) != Way::kAtOnce) return false;
  slot.measured.reset();
  token_plan_.reset();
  if (device_.log()) {
    device_.log()(BONSAI_LOG_WARNING, fmt::format("cuda: this session's layers run one by one from now on: {}", why));
  }
  return true;
}

// Layers [first, first + n) of a single token.
void Session::run_at_once(uint32_t first, uint32_t n, const Staged &staged) {
  const TokenLayersArguments arguments = {
      .attention = {heads_to_prepare(model_.layer(first), first, staged), attend_arguments(first, staged)},
      .combine = combine_arguments(staged),
      .layers = scratch_.as<LayerPointers>(layout_.layer_pointers),
      .x = floats(layout_.x),
      .gated = floats(layout_.gate_up),
      .barrier = scratch_.as<unsigned>(layout_.grid_barrier),
      .times = scratch_.as<TokenTimes>(layout_.layer_times),
      .products = token_plan_->products,
      .first_layer = first,
      .n_layers = n,
      .n_items = staged.attention.narrow_pieces * shape_.model.kv_heads,
      .n_splits = staged.attention.splits,
      .eps = model_.rms_eps()};
  const bool is_timed = device_.profile().is_on();
  device_.launch(is_timed ? token_plan_->timed_unit : token_plan_->unit, kTokenKernel, token_launch(), arguments);
  if (is_timed) add_times(first, n, staged.attention.splits > 0);
}

// Brings the times of the layers' steps into the profile, as one block noted them.
void Session::add_times(uint32_t first, uint32_t n, bool has_combined) {
  constexpr std::array<Phase, kTokenSteps> kPhases = {Phase::kQkv, Phase::kAttention, Phase::kAttention,
                                                      Phase::kO,   Phase::kGateUp,    Phase::kDown};
  std::vector<TokenTimes> times(uint64_t{n} * kTokenSteps);
  run_to_end(device_.stream(), [&] {
    device_.stream().download(times.data(), scratch(layout_.layer_times), times.size() * sizeof(TokenTimes));
  });
  const auto add = [&](Phase phase, uint64_t from, uint64_t to, uint64_t calls) {
    device_.profile().add_time(phase, std::chrono::nanoseconds(to - from), calls);
  };
  uint64_t arrived = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const size_t step = i % kTokenSteps;
    if (step == kCombineStep && !has_combined) continue;
    add(kPhases[step], times[i].began, times[i].arrived, step == kCombineStep ? 0 : 1);
    if (i > 0) add(Phase::kBarriers, arrived, times[i].began, 1);
    arrived = times[i].arrived;
  }
  for (uint32_t layer = first; layer < first + n; ++layer) {
    for (uint32_t i = 0; i < kLayerProducts; ++i) {
      const Phase phase = kPhases[step_of(i)];
      device_.profile().add_bytes(phase, bytes_of_rows(model_.layer(layer).rows(kProjections[i])));
    }
  }
}

}  // namespace bonsai::cuda
