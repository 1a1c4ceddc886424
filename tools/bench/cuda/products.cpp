#include "tools/bench/cuda/products.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "plugins/cuda/driver/graph.h"
#include "plugins/cuda/layout/packed_matrix.h"
#include "plugins/cuda/packing.h"

namespace bonsai::bench::cuda {
namespace {

using namespace bonsai::cuda;

constexpr int kRuns = 9;
constexpr uint64_t kLaunches = 64;  // of a graph, at least
constexpr uint64_t kDistinctRows = 64;

// Rows of plausible weights in a format's blocks, the same few again and again.
std::vector<std::byte> random_matrix(quant::Format format, uint64_t rows, uint64_t columns) {
  const quant::FormatTraits &traits = quant::traits(format);
  const size_t row_bytes = quant::row_bytes(traits, columns);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<std::byte> blocks(rows * row_bytes);
  std::vector<float> row(columns);
  const uint64_t distinct = std::min(rows, kDistinctRows);
  for (uint64_t i = 0; i < distinct; ++i) {
    std::generate(row.begin(), row.end(), [&] { return normal(random); });
    traits.encode(row.data(), blocks.data() + i * row_bytes, columns);
  }
  for (uint64_t i = distinct; i < rows; ++i) {
    std::copy_n(blocks.begin() + static_cast<ptrdiff_t>((i % distinct) * row_bytes), row_bytes,
                blocks.begin() + static_cast<ptrdiff_t>(i * row_bytes));
  }
  return blocks;
}

std::vector<float> random_vectors(uint64_t n) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

uint64_t cache_bytes(const Context &context) {
  int bytes = 0;
  const Driver &driver = context.driver();
  driver.check(driver.cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, context.device()),
               "cuDeviceGetAttribute");
  return static_cast<uint64_t>(bytes);
}

// A matrix, several times, so that each product finds it in memory.
std::vector<PackedMatrix> upload_copies(Device &device, const ProductCase &which) {
  const MatrixShape &shape = which.shape;
  const std::vector<std::byte> blocks = random_matrix(which.format, shape.rows, shape.columns);
  const uint64_t bytes = packed_bytes(which.format, shape.rows, shape.columns);
  const uint64_t wanted = 4 * cache_bytes(device.context());
  std::vector<PackedMatrix> copies;
  for (uint64_t held = 0; held < wanted || copies.empty(); held += bytes) {
    copies.push_back({.format = which.format,
                      .rows = shape.rows,
                      .columns = shape.columns,
                      .storage = DeviceBuffer(device.context(), bytes, "a matrix")});
    if (copies.size() > 1) {
      device.stream().copy(copies.back().storage.data(), copies.front().storage.data(), bytes);
      continue;
    }
    device.uploader().upload({.format = which.format,
                              .rows = shape.rows,
                              .columns = shape.columns,
                              .source = blocks.data(),
                              .first_tile = 0,
                              .last_tile = 0,
                              .packed = nullptr},
                             copies.back().storage.as<std::byte>());
  }
  return copies;
}

double median_seconds(Device &device, const GraphExec &graph) {
  const Event begin(device.context(), Event::Timing::kOn), end(device.context(), Event::Timing::kOn);
  std::vector<double> seconds;
  for (int i = 0; i <= kRuns; ++i) {
    begin.record(device.stream());
    graph.launch(device.stream());
    end.record(device.stream());
    end.synchronize();
    if (i > 0) seconds.push_back(end.seconds_since(begin));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

}  // namespace

const std::vector<MatrixShape> &matrix_shapes() {
  static const std::vector<MatrixShape> shapes = {
      {"1.7b qkv", 4096, 2048},    {"1.7b o", 2048, 2048},   {"1.7b gate_up", 12288, 2048}, {"1.7b down", 2048, 6144},
      {"1.7b head", 151936, 2048}, {"8b qkv", 6144, 4096},   {"8b o", 4096, 4096},          {"8b gate_up", 24576, 4096},
      {"8b down", 4096, 12288},    {"8b head", 151936, 4096}};
  return shapes;
}

ProductTime time_product(Device &device, const ProductCase &which) {
  const MatrixShape &shape = which.shape;
  const std::vector<PackedMatrix> copies = upload_copies(device, which);
  std::vector<MatrixRows> rows;
  for (const PackedMatrix &matrix : copies) {
    rows.push_back({.matrix = &matrix, .first_row = 0, .rows = shape.rows, .output = 0});
  }
  const MatmulShape asked = {
      .format = which.format, .first_row = 0, .rows = shape.rows, .columns = shape.columns, .n = which.n};
  const MatmulPlan plan =
      which.kernel ? plan_by(*which.kernel, asked, device.matmul_device()) : plan_matmul(asked, device.matmul_device());
  const ActivationForms forms = ActivationForms::of(which.format, takes_bits(plan));
  const DeviceBuffer x(device.context(), which.n * shape.columns * sizeof(float), "vectors");
  const DeviceBuffer y(device.context(), which.n * shape.rows * sizeof(float), "products");
  const DeviceBuffer packed(device.context(), packed_activation_bytes(forms, which.n, shape.columns), "vectors");
  const std::vector<float> values = random_vectors(which.n * shape.columns);
  device.stream().upload(x.data(), values.data(), x.bytes());
  const PackedActivations activations = place_activations(forms, packed.as<std::byte>(), which.n, shape.columns);
  pack_rows(device, {.x = x.as<float>(), .n = which.n, .columns = shape.columns, .forms = forms, .to = activations});
  const auto product = [&](uint64_t i) {
    const MatrixRows &part = rows[i % rows.size()];
    multiply_part(device,
                  {.rows = {&part, 1},
                   .activations = activations,
                   .n = which.n,
                   .bias = nullptr,
                   .y = y.as<float>(),
                   .y_stride = shape.rows,
                   .add = false},
                  part, plan);
  };
  product(0);  // loads the kernel: nothing may be loaded while a graph is recorded
  const uint64_t launches = std::max(kLaunches, uint64_t{copies.size()});
  Capture capture(device.stream());
  for (uint64_t i = 0; i < launches; ++i) product(i);
  const GraphExec graph(capture.finish());
  return {.seconds = median_seconds(device, graph) / static_cast<double>(launches),
          .matrix_bytes = copies[0].storage.bytes(),
          .kernel = plan.kernel};
}

}  // namespace bonsai::bench::cuda
