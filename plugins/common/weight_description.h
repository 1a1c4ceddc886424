// The checks of weight_upload, all of them before anything is made.
#pragma once

#include <bonsai/backend.h>

#include <string>

#include "core/quant/format.h"

namespace bonsai::plugin {

// The format of a dtype; nullptr for a number that is not one. Their numbers are equal.
const quant::FormatTraits *find_traits(bonsai_dtype dtype);

// What a backend serves for a dtype; 0 for a number that is not one.
using SupportedUses = bonsai_weight_use (*)(bonsai_dtype dtype);

// Returns the weight's name for messages. Throws BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED with the first thing
// that is wrong; messages begin with the name.
std::string check_description(const bonsai_weight_desc &desc, SupportedUses supported_uses);

// Checks the arguments of gemv but for the weight's own kind. Throws BONSAI_INVALID_ARGUMENT.
struct WeightShape;
void check_gemv(const bonsai_gemv_args &args, const WeightShape &weight);

}  // namespace bonsai::plugin
