// Plugins compute in the same environment as the host.
#pragma once

#include "core/base/floating_point_environment.h"

namespace bonsai::plugin {

using bonsai::DefaultFloatingPoint;

}  // namespace bonsai::plugin
