#include "host/bench/profile.h"

#include <algorithm>
#include <utility>

namespace bonsai::bench {

Profile make_profile(const Timing &timing, std::optional<std::vector<ProfilePhase>> backend) {
  Profile profile{.seconds = timing.seconds, .phases = {}};
  if (backend) profile.phases = *std::move(backend);
  if (timing.samples > 0)
    profile.phases.push_back({.name = "sampling", .seconds = timing.sampling_seconds, .calls = timing.samples});
  double left = timing.seconds;
  for (const ProfilePhase &phase : profile.phases) left -= phase.seconds;
  profile.phases.push_back({.name = backend ? "host" : "forward", .seconds = std::max(left, 0.0)});
  return profile;
}

}  // namespace bonsai::bench
