#include "plugins/common/profile.h"

#include "plugins/common/failure.h"

namespace bonsai::plugin {
namespace {

constexpr std::array<const char *, kPhases> kNames = {"embedding", "norm",      "qkv",    "rope", "attention",
                                                      "o",         "gate_up",   "swiglu", "down", "residual",
                                                      "head",      "selection", "gemv"};

}  // namespace

void Profile::apply(bonsai_profile_action action, bonsai_profile *profile) {
  if (action > BONSAI_PROFILE_STOP) refuse("action is {}, expected 0 to 2", action);
  if (profile) describe(*profile);
  if (action == BONSAI_PROFILE_START) totals_ = {};
  if (action != BONSAI_PROFILE_READ) on_ = action == BONSAI_PROFILE_START;
}

void Profile::add_time(Phase phase, std::chrono::duration<double> time) {
  Totals &totals = totals_[static_cast<size_t>(phase)];
  totals.seconds += time.count();
  ++totals.calls;
}

void Profile::describe(bonsai_profile &profile) {
  uint32_t n = 0;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    const Totals &totals = totals_[phase];
    if (totals.calls == 0) continue;
    shown_[n] = {.struct_size = sizeof(bonsai_profile_phase),
                 .reserved = 0,
                 .name = kNames[phase],
                 .seconds = totals.seconds,
                 .calls = totals.calls,
                 .bytes = totals.bytes};
    pointers_[n] = &shown_[n];
    ++n;
  }
  profile.n_phases = n;
  profile.phases = pointers_.data();
}

}  // namespace bonsai::plugin
