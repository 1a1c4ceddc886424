// Promise: any bytes are either refused with one line or make a File of which every part can be used.
#include <string_view>

#include "core/gguf/file.h"
#include "core/gguf/validate.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/gguf/file_bytes.h"

namespace {

using bonsai::gguf::File;
using bonsai::gguf::FileBytes;

// Sums what it is given, so that every byte is read.
uint64_t checksum(std::string_view text) {
  uint64_t sum = 0;
  for (const char c : text) sum += static_cast<uint8_t>(c);
  return sum;
}

uint64_t use_metadata(const File &file) {
  uint64_t sum = 0;
  for (const auto &[key, value] : file.metadata()) {
    require(file.find(key) == &value);
    sum += value.as_uint().value_or(0);
    if (const auto text = value.as_string()) sum += checksum(*text);
    const auto *array = value.as_array();
    if (array == nullptr) continue;
    if (array->element_type == bonsai::gguf::ValueType::kString) {
      const auto strings = array->strings();
      require(strings.size() == array->count);
      for (const auto string : strings) sum += checksum(string);
    } else if (const auto numbers = array->numbers()) {
      require(numbers->size() == array->count);
    } else if (const auto integers = array->integers()) {
      require(integers->size() == array->count);
    }
  }
  return sum;
}

void use_tensors(const File &file) {
  for (const auto &tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor);
    const auto &format = bonsai::quant::traits(tensor.format);
    require(tensor.data.size() == tensor.rows() * bonsai::quant::row_bytes(format, tensor.columns()));
    require(tensor.offset % file.alignment() == 0);
  }
  const auto report = bonsai::gguf::validate(file);
  require(report.tensors.size() == file.tensors().size());
}

std::vector<uint8_t> input_of(const FileBytes &file) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(file.bytes().data());
  return {bytes, bytes + file.size()};
}

// Tensors of type 42, with `block_bytes` for every 128 weights.
FileBytes type_42_file(uint64_t rows, size_t block_bytes) {
  FileBytes file;
  file.header(2, 0).tensor("a", {128, rows}, 42, 0);
  const size_t bytes = rows * block_bytes;
  file.tensor("b", {256, 1}, 42, (bytes + 31) / 32 * 32).align();
  return file.zeros(bytes).align().zeros(2 * block_bytes);
}

// One of each type that the reader knows but 42.
FileBytes every_type_file() {
  FileBytes file;
  const auto formats = bonsai::quant::formats();
  file.header(formats.size() - 1, 0);
  uint64_t offset = 0;
  for (const auto &format : formats) {
    if (format.gguf_type == 42) continue;
    file.tensor(format.name, {256}, format.gguf_type, offset);
    offset += (256 / format.block_weights * format.block_bytes + 31) / 32 * 32;
  }
  return file.align().zeros(offset);
}

FileBytes scale_last_file() {
  FileBytes file;
  file.header(1, 1).key("general.quantization_version", bonsai::gguf::ValueType::kString).text("TQ2_0_G128");
  return file.tensor("w", {128, 3}, 42, 0).align().zeros(3 * 34);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto file = File::parse(std::as_bytes(std::span(data, size)), "input");
  if (!file) {
    const std::string_view message = file.error().message;
    require(message.starts_with("input: ") && message.find('\n') == std::string_view::npos);
    return 0;
  }
  use_metadata(*file);
  use_tensors(*file);
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  FileBytes bare;
  bare.header(0, 0);
  FileBytes vocabulary;
  vocabulary.header(0, 2).array("tokenizer.ggml.tokens", bonsai::gguf::ValueType::kString, 40);
  for (int i = 0; i < 40; ++i) vocabulary.text("token");
  vocabulary.array("tokenizer.ggml.token_type", bonsai::gguf::ValueType::kInt32, 40).zeros(160);
  return {input_of(bonsai::gguf::one_of_everything(3)),
          input_of(bonsai::gguf::one_of_everything(2)),
          input_of(bare),
          input_of(vocabulary),
          input_of(type_42_file(40, 34)),
          input_of(type_42_file(40, 36)),
          input_of(type_42_file(1, 36)),
          input_of(every_type_file()),
          input_of(scale_last_file())};
}
