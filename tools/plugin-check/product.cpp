#include "tools/plugin-check/product.h"

#include "tools/plugin-check/context.h"

namespace bonsai::check {

std::vector<float> product(const host::Device &device, const host::Weight &weight, uint64_t rows,
                           const std::vector<float> &x) {
  std::vector<float> y(rows);
  const bonsai_gemv_args args = {.struct_size = sizeof args,
                                 .n = 1,
                                 .weight = weight.handle(),
                                 .first_row = 0,
                                 .rows = rows,
                                 .x = x.data(),
                                 .y = y.data()};
  bonsai_error error = empty_error();
  expect_ok("gemv", device.api().gemv(device.handle(), &args, &error), error);
  return y;
}

}  // namespace bonsai::check
