#include "tools/plugin-check/gemv_checks.h"

#include <algorithm>
#include <cstring>

#include "tools/plugin-check/context.h"
#include "tools/plugin-check/environment.h"
#include "tools/plugin-check/matrix.h"

namespace bonsai::check {
namespace {

using quant::Format;
using quant::FormatTraits;

constexpr std::array<uint32_t, 11> kVectorCounts = {1, 2, 3, 7, 8, 9, 31, 32, 33, 128, 512};

// One product is a single draw of its rounding errors; all of a shape together are their mean.
constexpr double kSingleFactor = 3;

host::Weight::Part part_of(const Matrix &matrix) {
  return {.dtype = static_cast<bonsai_dtype>(matrix.format), .rows = matrix.rows, .data = matrix.blocks()};
}

host::Weight upload(Context &context, const Matrix &matrix, bonsai_weight_use uses = BONSAI_USE_MATRIX,
                    bool borrowed = false) {
  const host::Weight::Part part = part_of(matrix);
  return value_if_served(host::Weight::upload(context.device(), "w", matrix.columns, {&part, 1}, uses, borrowed));
}

struct Rows {
  uint64_t first, count;
};

// y (n, rows.count) of one gemv; fails if it writes beyond y or changes x.
std::vector<float> gemv(Context &context, const host::Weight &weight, Rows rows, const std::vector<float> &x,
                        uint32_t n) {
  constexpr size_t kGuard = 16;
  constexpr float kMark = -12345.5f;
  const size_t size = n * rows.count;
  std::vector<float> y(size + 2 * kGuard, kMark);
  const std::vector<float> given = x;
  const bonsai_gemv_args args = {.struct_size = sizeof args,
                                 .n = n,
                                 .weight = weight.handle(),
                                 .first_row = rows.first,
                                 .rows = rows.count,
                                 .x = given.data(),
                                 .y = y.data() + kGuard};
  bonsai_error error = empty_error();
  expect_ok("gemv", context.api().gemv(context.device().handle(), &args, &error), error);
  const auto is_mark = [](float value) { return value == kMark; };
  const auto end = y.end() - kGuard;
  expect(std::all_of(y.begin(), y.begin() + kGuard, is_mark) && std::all_of(end, y.end(), is_mark),
         "gemv of {} rows and {} vectors writes outside y", rows.count, n);
  expect(std::memcmp(x.data(), given.data(), x.size() * sizeof(float)) == 0, "gemv changes x");
  return {y.begin() + kGuard, end};
}

// What one product is of, for messages.
struct Case {
  const Matrix &matrix;
  Pattern pattern = Pattern::kRandom;
  VectorPattern vectors = VectorPattern::kRandom;
};

std::string describe(const Case &product, uint32_t n) {
  return fmt::format("{} ({}, {}) of {} by {} {} vectors", quant::traits(product.matrix.format).name,
                     product.matrix.rows, product.matrix.columns, name_of(product.pattern), n,
                     name_of(product.vectors));
}

// One gemv of all rows against the judge, each vector for itself; adds to `sum`.
void expect_product(Context &context, const Case &product, const host::Weight &weight, uint32_t n, Random &random,
                    ProductError &sum) {
  const Matrix &matrix = product.matrix;
  const double bound = error_bound(matrix.format) * kSingleFactor;
  const std::vector<float> x = make_vectors(n, matrix.columns, product.vectors, random);
  const std::vector<float> y = gemv(context, weight, {0, matrix.rows}, x, n);
  for (uint32_t i = 0; i < n; ++i) {
    const double error = sum.add(matrix, 0, std::span(x).subspan(i * matrix.columns, matrix.columns),
                                 std::span(y).subspan(i * matrix.rows, matrix.rows));
    expect(error <= bound, "{}: vector {} has a relative error of {:.2e}, expected at most {:.0e}",
           describe(product, n), i, error, bound);
  }
}

void expect_total(const ProductError &sum, const Case &product, uint32_t n) {
  const double bound = error_bound(product.matrix.format);
  expect(sum.total() <= bound, "{}: relative error {:.2e}, expected at most {:.0e}", describe(product, n), sum.total(),
         bound);
}

void skip_unless_multiplied(Context &context, Format format) {
  skip_unless(context.multiplies(format), "{} matrices are not claimed", quant::traits(format).name);
}

// Columns that are `blocks` blocks, or as many for formats without blocks as make the same work.
uint64_t columns_of(const FormatTraits &traits, uint32_t blocks) {
  return traits.block_weights > 1 ? uint64_t{blocks} * traits.block_weights : 33 * uint64_t{blocks} - 32;
}

void check_shape(Context &context, Format format, uint64_t rows, uint64_t columns, std::span<const uint32_t> counts) {
  Random random(rows * 1000 + columns);
  const Matrix matrix = make_matrix(format, rows, columns, Pattern::kRandom, random);
  const host::Weight weight = upload(context, matrix);
  ProductError sum;
  uint32_t vectors = 0;
  for (const uint32_t n : counts) {
    expect_product(context, {matrix}, weight, n, random, sum);
    vectors += n;
  }
  expect_total(sum, {matrix}, vectors);
}

// Extremes of one kind at a time. What a single column yields hangs on one element of the vector, which 8-bit
// activations keep well only where all elements are of one size.
bool belong_together(Pattern pattern, VectorPattern vectors) {
  if (pattern == Pattern::kRandom) return true;
  return pattern == Pattern::kOneColumn ? vectors == VectorPattern::kSigns : vectors <= VectorPattern::kOneHot;
}

void check_patterns(Context &context, Format format) {
  const uint64_t columns = columns_of(quant::traits(format), 3);
  for (const Pattern pattern : kPatterns) {
    for (const VectorPattern vectors : kVectorPatterns) {
      if (!belong_together(pattern, vectors)) continue;
      Random random(7);
      const Matrix matrix = make_matrix(format, 33, columns, pattern, random);
      const host::Weight weight = upload(context, matrix);
      const Case product = {matrix, pattern, vectors};
      ProductError sum;
      expect_product(context, product, weight, 9, random, sum);
      expect_total(sum, product, 9);
    }
  }
}

void check_format(Context &context, Format format) {
  skip_unless_multiplied(context, format);
  const FormatTraits &traits = quant::traits(format);
  constexpr std::array<uint32_t, 2> kOneAndThree = {1, 3};
  constexpr std::array<uint32_t, 2> kOneAndMost = {1, 512};
  Shapes shapes;
  shapes.run([&] { check_shape(context, format, 1, columns_of(traits, 1), kOneAndThree); });
  shapes.run([&] { check_shape(context, format, 15, columns_of(traits, 3), kOneAndThree); });
  shapes.run([&] { check_shape(context, format, 17, columns_of(traits, 1), kOneAndMost); });
  shapes.run([&] { check_shape(context, format, 33, columns_of(traits, 5), std::span(kVectorCounts).first(10)); });
  shapes.run([&] { check_shape(context, format, 33, 256, kOneAndThree); });  // whole blocks of everything
  shapes.run([&] { check_patterns(context, format); });
  shapes.finish();
}

void check_format_exhaustively(Context &context, Format format) {
  skip_unless_multiplied(context, format);
  Shapes shapes;
  for (const uint64_t rows : {1, 2, 7, 15, 16, 17, 31, 33, 64, 65, 127}) {
    for (const uint32_t blocks : {1, 2, 3, 4, 5, 7, 8}) {
      shapes.run([&] { check_shape(context, format, rows, columns_of(quant::traits(format), blocks), kVectorCounts); });
    }
  }
  shapes.finish();
}

// -------- Which dtypes

// A matrix as wide as Qwen3-0.6B, with as many rows as one of its heads: a backend may refuse shapes, but not all that
// models have.
void check_claim(Context &context, const FormatTraits &traits, bonsai_weight_use uses, bool is_claimed) {
  Random random(3);
  const Matrix matrix = make_matrix(traits.format, 128, 1024, Pattern::kLowestCodes, random);
  const host::Weight::Part part = part_of(matrix);
  const auto weight = host::Weight::upload(context.device(), "w", matrix.columns, {&part, 1}, uses, false);
  if (is_claimed) {
    expect(weight.has_value(), "{} is claimed for use {}, but weight_upload of ({}, {}) failed: {}", traits.name, uses,
           matrix.rows, matrix.columns, weight ? "" : weight.error().message);
    return;
  }
  expect(!weight, "{} is not claimed for use {}, but weight_upload takes it", traits.name, uses);
  expect(weight.error().status == BONSAI_UNSUPPORTED,
         "weight_upload of {}, which is not claimed: status {}, expected BONSAI_UNSUPPORTED", traits.name,
         status_name(weight.error().status));
}

void check_claims(Context &context) {
  for (const FormatTraits &traits : quant::formats()) {
    const bonsai_weight_use uses = context.uses(traits.format);
    expect((uses & ~uint32_t{BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING}) == 0, "{}: unknown uses {:#x}", traits.name,
           uses);
    for (const bonsai_weight_use use : {BONSAI_USE_MATRIX, BONSAI_USE_EMBEDDING}) {
      check_claim(context, traits, use, (uses & use) != 0);
    }
  }
  for (const bonsai_dtype dtype : {1000000u, 0xFFFFFFFFu}) {
    const auto uses = value_of(context.device().dtype_support(dtype));
    expect(uses == 0, "dtype {} is claimed for {:#x}, but no such dtype exists", dtype, uses);
  }
  context.plainest_format();  // fails without any
}

// -------- Weights of several parts

std::vector<Format> claimed_formats(Context &context) {
  std::vector<Format> formats;
  for (const FormatTraits &traits : quant::formats()) {
    if (context.multiplies(traits.format)) formats.push_back(traits.format);
  }
  return formats;
}

// A weight of the given parts, and slices of it that begin, end and lie anywhere in them.
void check_parts(Context &context, const std::vector<Matrix> &matrices) {
  std::vector<host::Weight::Part> parts;
  uint64_t rows = 0;
  double bound = 0;
  for (const Matrix &matrix : matrices) {
    parts.push_back(part_of(matrix));
    rows += matrix.rows;
    bound = std::max(bound, error_bound(matrix.format));
  }
  const uint64_t columns = matrices[0].columns;
  const host::Weight weight =
      value_if_served(host::Weight::upload(context.device(), "w", columns, parts, BONSAI_USE_MATRIX, false));
  const std::vector<Rows> slices = {{0, rows},     {0, 1},       {rows - 1, 1}, {matrices[0].rows - 1, 2},
                                    {5, rows - 9}, {3, rows / 2}};
  for (const auto &[first, count] : slices) {
    const uint32_t n = 3;
    Random random(first + 1);
    const std::vector<float> x = make_vectors(n, columns, VectorPattern::kRandom, random);
    const std::vector<float> y = gemv(context, weight, {first, count}, x, n);
    ProductError sum;
    for (uint32_t i = 0; i < n; ++i) {
      uint64_t part_begin = 0;
      for (const Matrix &matrix : matrices) {
        const uint64_t begin = std::max(first, part_begin), end = std::min(first + count, part_begin + matrix.rows);
        if (begin < end) {
          sum.add(matrix, begin - part_begin, std::span(x).subspan(i * columns, columns),
                  std::span(y).subspan(i * count + begin - first, end - begin));
        }
        part_begin += matrix.rows;
      }
    }
    const double allowed = count > 2 ? bound : bound * kSingleFactor;
    expect(sum.total() <= allowed,
           "rows {} to {} of a weight of {} parts: relative error {:.2e}, expected at most {:.0e}", first,
           first + count, matrices.size(), sum.total(), allowed);
  }
}

void check_stacked(Context &context) {
  for (const Format format : claimed_formats(context)) {
    Random random(11);
    std::vector<Matrix> matrices;
    for (const uint64_t rows : {33, 17, 15})
      matrices.push_back(make_matrix(format, rows, 256, Pattern::kRandom, random));
    check_parts(context, matrices);
  }
}

void check_mixed(Context &context) {
  const std::vector<Format> formats = claimed_formats(context);
  skip_unless(formats.size() > 1, "only {} is claimed: there is nothing to mix", quant::traits(formats[0]).name);
  Random random(12);
  std::vector<Matrix> all;
  for (const Format format : formats) all.push_back(make_matrix(format, 17, 512, Pattern::kRandom, random));
  check_parts(context, all);
  for (size_t i = 0; i < formats.size(); ++i) {
    const Format next = formats[(i + 1) % formats.size()];
    check_parts(context, {make_matrix(formats[i], 15, 256, Pattern::kRandom, random),
                          make_matrix(next, 33, 256, Pattern::kRandom, random)});
  }
}

// -------- Whose memory a weight is in

// What weight_upload says of the caller's memory and of its own. It is asked for here: the host does not heed what a
// backend says to keep of memory that was not lent.
void check_result(Context &context, const Matrix &matrix, bool borrowed) {
  const std::string_view name = quant::traits(matrix.format).name;
  const bonsai_weight_part part = {.struct_size = sizeof part,
                                   .dtype = static_cast<bonsai_dtype>(matrix.format),
                                   .rows = matrix.rows,
                                   .data = matrix.blocks().data(),
                                   .data_bytes = matrix.blocks().size()};
  const bonsai_weight_part *const parts = &part;
  const bonsai_weight_desc desc = {.struct_size = sizeof desc,
                                   .flags = borrowed ? bonsai_weight_flags{BONSAI_WEIGHT_BORROWED} : 0,
                                   .uses = BONSAI_USE_MATRIX,
                                   .n_parts = 1,
                                   .columns = matrix.columns,
                                   .parts = &parts,
                                   .name = "w"};
  const uint64_t before = status_of(context.device()).weight_bytes;
  bonsai_weight *weight = nullptr;
  bonsai_weight_result result = {.struct_size = sizeof result, .borrowed = 77, .bytes = 77};
  bonsai_error error = empty_error();
  expect_served("weight_upload",
                context.api().weight_upload(context.device().handle(), &desc, &weight, &result, &error), error);
  const uint64_t taken = status_of(context.device()).weight_bytes - before;
  context.api().weight_free(context.device().handle(), weight);
  expect(result.borrowed <= 1, "{}: weight_upload says that {} was borrowed, expected 0 or 1", name, result.borrowed);
  expect(borrowed || result.borrowed == 0, "{}: the weight keeps pointers, but BONSAI_WEIGHT_BORROWED was not set",
         name);
  if (context.api().device_status == nullptr) return;
  expect(result.bytes == taken, "{}: weight_upload says that the weight occupies {} bytes, but device_status says {}",
         name, result.bytes, taken);
}

// The product of a matrix whose caller's memory is overwritten after the upload, where that is allowed.
void check_memory(Context &context, Format format, bool borrowed) {
  Random random(13);
  const Matrix matrix = make_matrix(format, 33, 512, Pattern::kRandom, random);
  check_result(context, matrix, borrowed);
  Matrix given = matrix;
  const host::Weight weight = upload(context, given, BONSAI_USE_MATRIX, borrowed);
  const std::string name(quant::traits(format).name);
  if (weight.keeps_host_memory()) {
    expect(context.has(BONSAI_FEATURE_BORROWS), "{}: the weight keeps pointers, but BONSAI_FEATURE_BORROWS is not set",
           name);
  } else {
    std::fill(given.bytes.begin(), given.bytes.end(), std::byte{0x5A});
  }
  ProductError sum;
  expect_product(context, {matrix}, weight, 2, random, sum);
}

void check_all_memory(Context &context) {
  for (const Format format : claimed_formats(context)) {
    check_memory(context, format, false);
    check_memory(context, format, true);
  }
}

// -------- The caller's floating-point environment

// Where codes have one sign, what is rounded in one direction adds up. A scale that is a subnormal f16 vanishes where
// it is decoded by way of a subnormal f32.
void check_environment(Context &usual) {
  under_unusual_caller([&] {
    Context context(usual.plugin());  // its device's threads begin in that environment
    Shapes shapes;
    for (const Format format : claimed_formats(context)) {
      for (const Pattern pattern : {Pattern::kRandom, Pattern::kSmallScale, Pattern::kHighestCodes}) {
        shapes.run([&] {
          Random random(15);
          const Matrix matrix = make_matrix(format, 33, 512, pattern, random);
          const host::Weight weight = upload(context, matrix);
          ProductError sum;
          expect_product(context, {matrix, pattern}, weight, 3, random, sum);
          expect_total(sum, {matrix, pattern}, 3);
        });
      }
    }
    shapes.finish();
  });
}

// -------- Same bytes

void check_same_bytes(Context &context) {
  skip_unless(context.has(BONSAI_FEATURE_DETERMINISTIC), "BONSAI_FEATURE_DETERMINISTIC is not declared");
  for (const Format format : claimed_formats(context)) {
    Random random(14);
    const Matrix matrix = make_matrix(format, 65, 768, Pattern::kRandom, random);
    const host::Weight weight = upload(context, matrix);
    const uint32_t n = 33;
    const std::vector<float> x = make_vectors(n, matrix.columns, VectorPattern::kRandom, random);
    const std::vector<float> together = gemv(context, weight, {0, matrix.rows}, x, n);
    for (const uint32_t i : {32u, 16u, 0u}) {  // a result that is left where the first of many lies is no product
      const auto begin = x.begin() + static_cast<ptrdiff_t>(i * matrix.columns);
      const std::vector<float> one(begin, begin + static_cast<ptrdiff_t>(matrix.columns));
      const std::vector<float> alone = gemv(context, weight, {0, matrix.rows}, one, 1);
      expect(std::memcmp(alone.data(), &together[i * matrix.rows], alone.size() * sizeof(float)) == 0,
             "{}: vector {} of {} has other bytes than alone, although BONSAI_FEATURE_DETERMINISTIC is declared",
             quant::traits(format).name, i, n);
    }
  }
}

}  // namespace

void add_gemv_checks(std::vector<Check> &checks) {
  checks.push_back(
      {"dtypes", "dtype_support says which dtypes are taken, and weight_upload refuses the others", check_claims});
  for (const FormatTraits &traits : quant::formats()) {
    const Format format = traits.format;
    const std::string name(traits.name);
    checks.push_back({"gemv." + name, "products agree with the judge on ordinary and extreme weights, vectors, shapes",
                      [format](Context &context) { check_format(context, format); }});
    checks.push_back({"gemv." + name + ".exhaustive", "products agree with the judge in every shape and count",
                      [format](Context &context) { check_format_exhaustively(context, format); }, Extent::kExhaustive});
  }
  checks.push_back({"gemv.stacked", "a weight of several parts is their rows in order, in any slice", check_stacked});
  checks.push_back({"gemv.mixed", "parts of one weight may have different dtypes", check_mixed});
  checks.push_back(
      {"gemv.memory", "only borrowed memory is read after the upload, and what is taken is told", check_all_memory});
  checks.push_back(
      {"gemv.environment", "products are right in any floating-point environment of the caller's", check_environment});
  checks.push_back({"gemv.deterministic", "a vector's product has the same bytes in any company", check_same_bytes});
}

}  // namespace bonsai::check
