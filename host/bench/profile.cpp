#include "host/bench/profile.h"

#include <algorithm>
#include <utility>

namespace bonsai::bench {

Profile make_profile(double seconds, std::optional<std::vector<ProfilePhase>> backend) {
  Profile profile{.seconds = seconds, .phases = {}};
  if (backend) profile.phases = *std::move(backend);
  double left = seconds;
  for (const ProfilePhase &phase : profile.phases) left -= phase.seconds;
  profile.phases.push_back({.name = backend ? "host" : "forward", .seconds = std::max(left, 0.0)});
  return profile;
}

}  // namespace bonsai::bench
