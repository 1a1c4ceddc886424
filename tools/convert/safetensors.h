// Safetensors files, read by mapping (https://github.com/huggingface/safetensors, section "Format").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"
#include "core/base/result.h"
#include "core/quant/format.h"

namespace bonsai::convert {

struct SourceTensor {
  std::string name;
  std::string dtype;                    // as messages show it
  std::optional<quant::Format> format;  // F32, F16 or BF16; nullopt for what no weight of a Qwen3 is by itself
  bool is_fp8;                          // F8_E4M3: codes of a byte, which mean something with another tensor's scales
  std::vector<uint64_t> shape;          // outermost first: (rows, columns)
  // Row-major, little-endian; with a format and of FP8, exactly what it and the shape ask for.
  std::span<const std::byte> bytes;
};

// A checked file: every name is unique and the tensors fill the data section without a gap or an overlap. Spans point
// into the mapping.
class SafetensorsFile {
 public:
  // Errors are one line beginning with the path, and with the tensor's name where there is one.
  static Result<SafetensorsFile> open(const std::string &path);

  const std::vector<SourceTensor> &tensors() const { return tensors_; }  // in the order of their data
  const MappedFile &mapping() const { return mapping_; }

 private:
  SafetensorsFile(MappedFile mapping, std::vector<SourceTensor> tensors)
      : mapping_(std::move(mapping)), tensors_(std::move(tensors)) {}
  MappedFile mapping_;
  std::vector<SourceTensor> tensors_;
};

}  // namespace bonsai::convert
