// What the tests of bonsai-quantize share: an input of any tensors, the program's run, the output's content.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/gguf/file.h"
#include "core/gguf/writer.h"
#include "tests/tools/tool.h"

namespace bonsai::quantize {

struct InputTensor {
  std::string name;
  std::vector<uint64_t> shape;  // columns first
  quant::Format format;
  std::vector<std::byte> blocks;
};

inline InputTensor make_tensor(std::string name, std::vector<uint64_t> shape, const std::vector<float> &weights,
                               quant::Format format = quant::Format::kF32) {
  const quant::FormatTraits &traits = quant::traits(format);
  std::vector<std::byte> blocks(quant::row_bytes(traits, weights.size()));
  traits.encode(weights.data(), blocks.data(), weights.size());
  return {std::move(name), std::move(shape), format, std::move(blocks)};
}

// Between -1 and 1; the same for the same seed.
inline std::vector<float> random_weights(size_t count, uint32_t seed = 1) {
  std::vector<float> weights(count);
  for (float &weight : weights) {
    seed = seed * 1664525 + 1013904223;
    weight = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
  return weights;
}

inline std::vector<float> decode(const gguf::Tensor &tensor) {
  std::vector<float> weights(tensor.rows() * tensor.columns());
  quant::traits(tensor.format).decode(tensor.data.data(), weights.data(), weights.size());
  return weights;
}

class Quantize : public testing::Test {
 protected:
  void write_input(const std::vector<InputTensor> &tensors) const {
    const auto check = [](const Result<void> &result) {
      if (!result) throw std::runtime_error(result.error().message);
    };
    auto writer = gguf::Writer::create(input());
    if (!writer) throw std::runtime_error(writer.error().message);
    for (const InputTensor &tensor : tensors) check(writer->add_tensor(tensor.name, tensor.shape, tensor.format));
    check(writer->begin_data());
    for (const InputTensor &tensor : tensors) check(writer->write(tensor.blocks));
    check(writer->finish());
  }

  test::Outcome quantize(const std::string &options) const {
    return test::run_shell("bonsai-quantize " + test::in_quotes(input()) + " " + test::in_quotes(output()) + " " +
                           options);
  }

  // What is said of a run that must fail, less the program's name and the input's path; and nothing may be left.
  std::string refusal(const std::string &options) const {
    const test::Outcome outcome = quantize(options);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(test::files_in(directory_), std::vector<std::string>{"in.gguf"});
    const std::string prefix = "bonsai-quantize: " + input() + ": ";
    EXPECT_TRUE(outcome.err.starts_with(prefix)) << outcome.err;
    return outcome.err.substr(std::min(prefix.size(), outcome.err.size()));
  }

  gguf::File open(const std::string &path) const {
    auto file = gguf::File::open(path);
    if (!file) throw std::runtime_error(file.error().message);
    return std::move(*file);
  }
  gguf::File open_output() const { return open(output()); }

  std::string input() const { return directory_.file("in.gguf"); }
  std::string output() const { return directory_.file("out.gguf"); }

  test::TemporaryDirectory directory_;
};

inline void expect_blocks(const gguf::File &file, const InputTensor &expected) {
  const gguf::Tensor *tensor = file.find_tensor(expected.name);
  ASSERT_NE(tensor, nullptr) << expected.name;
  EXPECT_EQ(tensor->shape, expected.shape) << expected.name;
  ASSERT_EQ(tensor->format, expected.format) << expected.name;
  ASSERT_EQ(tensor->data.size(), expected.blocks.size()) << expected.name;
  EXPECT_EQ(std::memcmp(tensor->data.data(), expected.blocks.data(), expected.blocks.size()), 0) << expected.name;
}

}  // namespace bonsai::quantize
