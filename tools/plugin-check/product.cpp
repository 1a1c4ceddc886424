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

void expect_multiplied(const host::Device &device, const host::Weight &weight, const Matrix &matrix) {
  Random random(1);
  const std::vector<float> x = make_vectors(1, matrix.columns, VectorPattern::kRandom, random);
  ProductError sum;
  sum.add(matrix, 0, x, product(device, weight, matrix.rows, x));
  expect(sum.total() <= error_bound(matrix.format), "a product's relative error is {:.2e}", sum.total());
}

}  // namespace bonsai::check
