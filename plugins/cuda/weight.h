// A weight on the device: matrices stacked by rows. Consecutive parts of one format are one matrix, so that Q, K and V,
// or gate and up, are one product.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/common/model_shape.h"
#include "plugins/cuda/linear.h"

namespace bonsai::cuda {

using namespace plugin;

class Device;

// The uses that are served for a format: both for every format; 0 for a number that is not one.
bonsai_weight_use supported_uses(bonsai_dtype dtype);

class Weight {
 public:
  // Checks the description, then packs and uploads the parts. Throws BONSAI_INVALID_ARGUMENT, BONSAI_UNSUPPORTED or
  // BONSAI_OUT_OF_MEMORY.
  Weight(Device &device, const bonsai_weight_desc &desc);
  ~Weight();
  Weight(const Weight &) = delete;
  Weight &operator=(const Weight &) = delete;

  WeightShape shape() const { return {.rows = rows_, .columns = columns_, .uses = uses_}; }
  uint64_t bytes() const { return bytes_; }
  uint64_t borrowed_bytes() const { return 0; }

  // Appends the matrices that rows [first, first + count) lie in. Row `first` becomes output element `to`. What goes on
  // where the last one ends is added to that one.
  void append_rows(uint64_t first, uint64_t count, uint64_t to, std::vector<MatrixRows> &rows) const;

 private:
  struct Part {
    uint64_t first_row;
    PackedMatrix matrix;
  };

  void add_matrix(const bonsai_weight_desc &desc, uint32_t first, uint32_t end, const std::string &name);

  Device &device_;
  bonsai_weight_use uses_;
  uint64_t columns_;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Part> parts_;  // never grows after the constructor: MatrixRows point into it
};

}  // namespace bonsai::cuda
