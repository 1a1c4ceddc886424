// Where the time of a measurement went: what the backend tells of its own, and what is left for the host.
#pragma once

#include <bonsai/engine.h>

#include <optional>
#include <vector>

namespace bonsai::bench {

// One repetition.
struct Timing {
  double seconds = 0;
  double sampling_seconds = 0;  // of these: choosing tokens
  uint32_t samples = 0;         // tokens that were chosen
};

struct Profile {
  double seconds = 0;                // of the whole
  std::vector<ProfilePhase> phases;  // which add up to it
};

// The backend's phases, then "sampling", then what is left: "host", or "forward" for the passes as a whole where the
// backend tells nothing (nullopt). Clocks that disagree leave nothing, never less.
Profile make_profile(const Timing &timing, std::optional<std::vector<ProfilePhase>> backend);

}  // namespace bonsai::bench
