// A weight on the device: matrices stacked by rows, each in its own format.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plugins/common/model_shape.h"
#include "plugins/cpu/device.h"
#include "plugins/cpu/kernels/packed_matrix.h"
#include "plugins/cpu/matmul.h"

namespace bonsai::cpu {

// The uses that are served for a format; 0 for a number that is not one.
bonsai_weight_use supported_uses(bonsai_dtype dtype);

class Weight {
 public:
  // Checks the description, then packs or copies the parts, or keeps pointers where that is allowed and of use. Throws
  // BONSAI_INVALID_ARGUMENT, BONSAI_UNSUPPORTED or BONSAI_OUT_OF_MEMORY; messages begin with the weight's name.
  Weight(Device &device, const bonsai_weight_desc &desc);
  ~Weight();
  Weight(const Weight &) = delete;
  Weight &operator=(const Weight &) = delete;

  WeightShape shape() const { return {.rows = rows_, .columns = columns_, .uses = uses_}; }
  uint64_t bytes() const { return bytes_; }
  uint64_t borrowed_bytes() const { return borrowed_bytes_; }

  // Appends the matrices that rows [first, first + count) lie in. Row `first` becomes output element `to`.
  void append_rows(uint64_t first, uint64_t count, uint64_t to, std::vector<MatrixRows> &rows) const;

  // Decodes one row into `values` (columns).
  void lookup(uint64_t row, std::span<float> values) const;

 private:
  // A matrix is packed if it is multiplied with and its format has a packed form; otherwise its rows are as they came.
  struct Part {
    uint64_t first_row;
    PackedMatrix matrix;
    bool packed;
    std::shared_ptr<std::byte> storage;  // empty: `matrix.data` is the caller's
  };
  void add_part(Device &device, const bonsai_weight_part &part, bool may_borrow);
  const Part &part_of(uint64_t row) const;

  Device &device_;
  bonsai_weight_use uses_;
  uint64_t columns_;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  uint64_t borrowed_bytes_ = 0;
  std::vector<Part> parts_;
};

}  // namespace bonsai::cpu
