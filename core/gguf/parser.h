// Turns bytes into a checked File, or into one line about the first thing that is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/cursor.h"
#include "core/gguf/file.h"

namespace bonsai::gguf {

// The steps, in order, each relying on what the earlier ones checked. Memory grows with what has been read, never with
// what a count claims. Messages do not name the file; File does that.
class Parser {
 public:
  // `scale_last`: the file's ternary blocks of 128 end with the scale, whatever it says itself.
  Parser(std::span<const std::byte> bytes, bool scale_last) : bytes_(bytes), cursor_(bytes) {
    file_.scale_last_ = scale_last;
  }

  Result<File> parse();

 private:
  // Where the fields of a tensor's description stand, for messages of later steps.
  struct TensorFields {
    uint64_t name_at;
    uint64_t shape_at;
    uint64_t type_at;
    uint64_t offset_at;
  };

  Result<void> read_header();
  Result<uint64_t> read_count(const Field &field, uint64_t least_bytes_each);
  Result<void> read_metadata();
  Result<void> index_keys();
  Result<void> apply_general_keys();
  Result<void> read_tensors();
  Result<void> read_tensor(uint64_t index);
  Result<void> read_shape(Tensor &tensor);
  Result<void> index_tensors();
  Result<void> check_end();
  Result<void> check_offsets();
  Result<void> settle_type_42();
  Result<void> place_data();
  Result<void> check_overlaps();

  Result<uint64_t> data_bytes(size_t i, quant::Format as) const;
  uint64_t extent_at(uint64_t offset) const;

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  File file_;
  uint64_t n_tensors_ = 0;
  uint64_t n_metadata_ = 0;
  std::vector<uint64_t> key_at_;
  std::vector<uint64_t> value_at_;
  std::vector<TensorFields> fields_;  // of each tensor
  std::vector<size_t> by_offset_;     // tensors in the order of their data
  uint64_t data_at_ = 0;              // where the data section is to begin, even if the file ends before
  std::span<const std::byte> data_section_;
};

}  // namespace bonsai::gguf
