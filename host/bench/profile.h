// Where the time of a measurement went: what the backend tells of its own, and what is left for the host.
#pragma once

#include <bonsai/engine.h>

#include <optional>
#include <vector>

namespace bonsai::bench {

struct Profile {
  double seconds = 0;                // of the whole
  std::vector<ProfilePhase> phases;  // which add up to it
};

// The backend's phases, then what is left of `seconds`: "host", or "forward" for the passes as a whole where the
// backend tells nothing (nullopt). Clocks that disagree leave nothing, never less.
Profile make_profile(double seconds, std::optional<std::vector<ProfilePhase>> backend);

}  // namespace bonsai::bench
