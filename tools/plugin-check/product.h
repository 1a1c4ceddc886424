// One vector's product, for checks that are not about products.
#pragma once

#include <vector>

#include "host/backend/device.h"

namespace bonsai::check {

// W x of a weight of so many rows, by one gemv, which has to succeed.
std::vector<float> product(const host::Device &device, const host::Weight &weight, uint64_t rows,
                           const std::vector<float> &x);

}  // namespace bonsai::check
