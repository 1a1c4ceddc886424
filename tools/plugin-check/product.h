// One vector's product, for checks that are not about products.
#pragma once

#include <vector>

#include "host/backend/device.h"
#include "tools/plugin-check/matrix.h"

namespace bonsai::check {

// W x of a weight of so many rows, by one gemv, which has to succeed.
std::vector<float> product(const host::Device &device, const host::Weight &weight, uint64_t rows,
                           const std::vector<float> &x);

// The product of a random vector, which has to be right.
void expect_multiplied(const host::Device &device, const host::Weight &weight, const Matrix &matrix);

}  // namespace bonsai::check
