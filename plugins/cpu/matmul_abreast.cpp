#include "plugins/cpu/matmul_abreast.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "plugins/cpu/quantized_vectors.h"

namespace bonsai::cpu {
namespace {

// Two tiles of a strip are unpacked together.
constexpr uint64_t kRowGrain = 2 * kTileRows;

// A product's rows of one layout, counted through, in parts that threads take with some of the vectors: every part is
// multiplied with all of them, kAbreastVectors at a time. As few parts as give every thread equally many such steps.
struct Division {
  uint32_t steps, parts;  // of the vectors, and of the rows
  uint64_t rows;

  Division(uint64_t rows, uint32_t n, uint32_t threads)
      : steps((n + kAbreastVectors - 1) / kAbreastVectors), parts(threads / std::gcd(threads, steps)), rows(rows) {}

  uint64_t first_row(uint32_t part) const { return rows * part / parts / kRowGrain * kRowGrain; }
  uint64_t end_of(uint32_t part) const { return part + 1 == parts ? rows : first_row(part + 1); }
};

bool is_in(const MatrixRows &rows, ActivationLayout layout) { return activation_layout(*rows.matrix) == layout; }

uint64_t count_rows(const Product &product, ActivationLayout layout) {
  uint64_t n = 0;
  for (const MatrixRows &rows : product.rows) n += is_in(rows, layout) ? rows.last_row - rows.first_row : 0;
  return n;
}

// Vectors [first, last) times rows [begin, end), as the division counts them.
struct Part {
  uint64_t begin, end;
  uint32_t first, last;
};

void multiply_part(const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors,
                   std::byte *scratch, const Part &part) {
  std::array<AbreastRows, 8> some;
  size_t n = 0;
  const auto multiply = [&] {
    if (n == 0) return;
    kernels.abreast.multiply({.rows = {some.data(), n},
                              .n = part.last - part.first,
                              .quantized_rows = vectors.rows + part.first * vectors.row_bytes,
                              .y_stride = product.y_stride,
                              .scratch = scratch});
    n = 0;
  };
  uint64_t passed = 0;
  for (const MatrixRows &rows : product.rows) {
    if (!is_in(rows, vectors.layout)) continue;
    const uint64_t count = rows.last_row - rows.first_row;
    const uint64_t begin = std::max(part.begin, passed), end = std::min(part.end, passed + count);
    if (begin < end) {
      some[n++] = {.matrix = rows.matrix,
                   .first_row = rows.first_row + begin - passed,
                   .last_row = rows.first_row + end - passed,
                   .y = product.y + part.first * product.y_stride + rows.output + (begin - passed)};
      if (n == some.size()) multiply();
    }
    passed += count;
  }
  multiply();
}

}  // namespace

uint32_t count_abreast(const Threads &threads, const KernelTable &kernels, const Product &product,
                       ActivationLayout layout) {
  const uint32_t rest = product.n % kAbreastVectors;
  const uint32_t n = rest < kernels.abreast.fewest_vectors ? product.n - rest : product.n;
  if (!kernels.abreast.multiply || n == 0 || product.sink || !product.activations.abreast) return 0;
  for (const MatrixRows &rows : product.rows) {
    if (is_in(rows, layout) && !kernels.takes_abreast(*rows.matrix)) return 0;
  }
  const Division division(count_rows(product, layout), n, static_cast<uint32_t>(threads.count()));
  return division.rows / division.parts >= kernels.abreast.fewest_rows ? n : 0;
}

void multiply_abreast(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  const QuantizedVectors vectors(product, QuantizationPlan::without_tables(layout, product.n));
  quantize(threads, kernels, product, vectors);
  const Division division(count_rows(product, layout), product.n, static_cast<uint32_t>(threads.count()));
  threads.each_range(uint64_t{division.parts} * division.steps, 1, [&](uint64_t begin, uint64_t end, int worker) {
    std::byte *scratch = product.activations.abreast + static_cast<uint64_t>(worker) * kAbreastScratchBytes;
    while (begin < end) {
      const auto part = static_cast<uint32_t>(begin / division.steps);
      const auto first = static_cast<uint32_t>(begin % division.steps);
      const auto last = static_cast<uint32_t>(std::min<uint64_t>(first + (end - begin), division.steps));
      multiply_part(kernels, product, vectors, scratch,
                    {.begin = division.first_row(part),
                     .end = division.end_of(part),
                     .first = first * kAbreastVectors,
                     .last = std::min(last * kAbreastVectors, product.n)});
      begin += last - first;
    }
  });
}

}  // namespace bonsai::cpu
