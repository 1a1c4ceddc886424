// Where a device's time goes, by phases of the forward pass. Off unless the ABI's `profile` turned it on, and then it
// costs a branch.
#pragma once

#include <bonsai/backend.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bonsai::plugin {

// In the order of a forward pass.
enum class Phase : size_t {
  kEmbedding,
  kNorm,
  kQkv,
  kRope,
  kAttention,
  kO,
  kGateUp,
  kSwiglu,
  kDown,
  kResidual,
  kHead,
  kSelection,
  kGemv
};
inline constexpr size_t kPhases = 13;

class Profile {
 public:
  // The ABI's function. Throws BONSAI_UNSUPPORTED for an action that is none.
  void apply(bonsai_profile_action action, bonsai_profile *profile);

  bool is_on() const { return on_; }
  // While on: bytes that a phase had to read.
  void add_bytes(Phase phase, uint64_t bytes) { totals_[static_cast<size_t>(phase)].bytes += bytes; }

  // Adds the time of its life to a phase. Spans do not nest.
  class Span {
   public:
    Span(Profile &profile, Phase phase) : profile_(profile.on_ ? &profile : nullptr), phase_(phase) {
      if (profile_) start_ = Clock::now();
    }
    ~Span() {
      if (profile_) profile_->add_time(phase_, Clock::now() - start_);
    }
    Span(const Span &) = delete;
    Span &operator=(const Span &) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    Profile *profile_;
    Phase phase_;
    Clock::time_point start_;
  };

 private:
  struct Totals {
    double seconds = 0;
    uint64_t calls = 0;
    uint64_t bytes = 0;
  };
  void add_time(Phase phase, std::chrono::duration<double> time);
  void describe(bonsai_profile &profile);

  bool on_ = false;
  std::array<Totals, kPhases> totals_;
  // What the caller of `profile` got to see last.
  std::array<bonsai_profile_phase, kPhases> shown_;
  std::array<const bonsai_profile_phase *, kPhases> pointers_;
};

}  // namespace bonsai::plugin
