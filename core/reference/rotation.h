// The judge's own account of RoPE: long double and libm, where the backends' tables have neither.
#pragma once

#include <vector>

#include "core/model/config.h"

namespace bonsai::reference {

// The angle by which pair i turns per position, linear scaling and YaRN included, (head_dim / 2).
std::vector<long double> pair_frequencies(const model::Config &config);

}  // namespace bonsai::reference
