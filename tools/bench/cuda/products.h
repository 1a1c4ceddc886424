// Times products of matrices in a model's shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/quant/format.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/layout/matmul_kernels.h"

namespace bonsai::bench::cuda {

struct MatrixShape {
  std::string name;  // "8b gate_up"
  uint64_t rows, columns;
};

// The matrices of one decoder layer and the head, of the models that bonsai-synth makes.
const std::vector<MatrixShape> &matrix_shapes();

struct ProductCase {
  quant::Format format;
  MatrixShape shape;
  uint32_t n;                                        // vectors
  std::optional<bonsai::cuda::MatmulKernel> kernel;  // that serves; none: the one that the backend takes
};

struct ProductTime {
  double seconds;         // of one product, launches of its packing not counted
  uint64_t matrix_bytes;  // that it reads
  std::string kernel;     // that ran
};

// Launches many products as one graph, over as many copies of the matrix as no cache holds, and takes the median of
// several runs. The context is current.
ProductTime time_product(bonsai::cuda::Device &device, const ProductCase &which);

}  // namespace bonsai::bench::cuda
