#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/text/template/runtime.h"

namespace bonsai::jinja {

// JSON as a template's value; its texts get `origin`. Errors: nested too deep, text that is not UTF-8, integers beyond
// 64 bits with a sign, binary values.
Value from_json(Runtime &runtime, const nlohmann::ordered_json &json, Origin origin);

}  // namespace bonsai::jinja
