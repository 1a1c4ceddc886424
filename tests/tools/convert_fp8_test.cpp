// Promise of bonsai-convert: the weights of an FP8 checkpoint are its codes times their scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/quant/fp8_blocks.h"
#include "tests/tools/convert_fixture.h"

namespace bonsai::convert {
namespace {

constexpr std::string_view kMatrix = "model.layers.0.mlp.down_proj.weight";  // 128 x 256
constexpr uint64_t kRows = 128, kColumns = 256;

class ConvertFp8 : public Convert {
 protected:
  ConvertFp8() : checkpoint_("BF16") {
    checkpoint_.config["quantization_config"] = {
        {"activation_scheme", "dynamic"}, {"fmt", "e4m3"}, {"quant_method", "fp8"}};
    codes_.resize(kRows * kColumns);
    for (size_t i = 0; i < codes_.size(); ++i) {
      const auto code = static_cast<uint8_t>(i * 37 + i / kColumns);
      codes_[i] = static_cast<char>((code & 0x7F) == 0x7F ? 0 : code);  // but for NaN, all of them
    }
    test::CheckpointTensor &matrix = checkpoint_.tensor(kMatrix);
    matrix.dtype = "F8_E4M3";
    matrix.bytes = codes_;
  }

  // Different numbers that BF16 holds.
  static float scale(size_t i) {
    return std::ldexp(1.0f + static_cast<float>(i % 128) / 128, -static_cast<int>(i % 9));
  }

  void add_scales(const std::string &end, std::vector<uint64_t> shape, const std::string &dtype = "F32") {
    size_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    std::string bytes;
    for (size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<uint32_t>(scale(i));
      for (int shift = dtype == "F32" ? 0 : 16; shift < 32; shift += 8)
        bytes += static_cast<char>(bits >> shift & 0xFF);
    }
    checkpoint_.tensors.push_back({std::string(kMatrix) + end, dtype, std::move(shape), std::move(bytes)});
  }

  // Converts to F32; `index(row, column)` is the scale of a weight.
  template <class Index>
  void expect_products(const Index &index) {
    const Outcome outcome = convert(checkpoint_, "F32");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const model::Model model = load();
    for (size_t i = 0; i < codes_.size(); ++i) {
      float weight = 0;
      std::memcpy(&weight, model.layers[0].ffn_down->data.data() + i * sizeof weight, sizeof weight);
      const float code = quant::fp8_to_float<quant::E4M3>(static_cast<uint8_t>(codes_[i]));
      ASSERT_EQ(weight, code * scale(index(i / kColumns, i % kColumns))) << i;
    }
  }

  TinyCheckpoint checkpoint_;
  std::string codes_;
};

// As Qwen's own have them.
TEST_F(ConvertFp8, ABlockOfRowsAndColumnsHasAScale) {
  checkpoint_.config["quantization_config"]["weight_block_size"] = {128, 128};
  add_scales("_scale_inv", {1, 2}, "BF16");
  expect_products([](size_t, size_t column) { return column / 128; });
}

TEST_F(ConvertFp8, BlocksNeedNotDivideTheMatrix) {
  checkpoint_.config["quantization_config"]["weight_block_size"] = {50, 60};
  add_scales("_scale_inv", {3, 5});
  expect_products([](size_t row, size_t column) { return row / 50 * 5 + column / 60; });
}

TEST_F(ConvertFp8, ATensorOrARowMayHaveAScale) {
  for (const std::vector<uint64_t> &shape : {std::vector<uint64_t>{}, {1}, {1, 1}}) {
    add_scales("_scale", shape);
    expect_products([](size_t, size_t) { return 0; });
    checkpoint_.tensors.pop_back();
  }
  for (const std::vector<uint64_t> &shape : {std::vector<uint64_t>{kRows}, {kRows, 1}}) {
    add_scales("_scale", shape);
    expect_products([](size_t row, size_t) { return row; });
    checkpoint_.tensors.pop_back();
  }
}

TEST_F(ConvertFp8, IsTheSameAsQuantizingAfterwards) {
  add_scales("_scale", {1});
  const std::string whole = directory_.file("whole.gguf"), later = directory_.file("later.gguf");
  ASSERT_EQ(convert(checkpoint_, "F32").exit_code, 0);
  fs::rename(output(), whole);
  for (const std::string type : {"BF16", "Q8_0", "Q1_0_G128", "F8_E4M3"}) {
    const Outcome outcome = convert_input(type);
    ASSERT_EQ(outcome.exit_code, 0) << type << ": " << outcome.err;
    EXPECT_EQ(outcome.err, "") << type;
    ASSERT_EQ(
        test::run_shell("bonsai-quantize " + in_quotes(whole) + " " + in_quotes(later) + " --type " + type).exit_code,
        0);
    const auto expected = gguf::File::open(later);
    ASSERT_TRUE(expected) << expected.error().message;
    const gguf::Tensor *matrix = expected->find_tensor("blk.0.ffn_down.weight");
    const model::Model model = load();
    EXPECT_EQ(model.layers[0].ffn_down->format, matrix->format) << type;
    EXPECT_TRUE(std::ranges::equal(model.layers[0].ffn_down->data, matrix->data)) << type;
  }
}

// Scales of activations are for who computes in FP8.
TEST_F(ConvertFp8, ScalesOfActivationsAreLeftOutAndSaid) {
  add_scales("_scale", {});
  checkpoint_.tensors.push_back({"model.layers.0.mlp.down_proj.input_scale", "F32", {}, "abcd"});
  const Outcome outcome = convert(checkpoint_, "F32");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "bonsai-convert: model.layers.0.mlp.down_proj.input_scale: not part of Qwen3 and left out\n");
}

TEST_F(ConvertFp8, NamesWhatItCannotRead) {
  const std::string scales = fmt::format(": {}_scale_inv: ", kMatrix);
  EXPECT_EQ(refusal(checkpoint_), scales + fmt::format("missing, expected the scales of {}\n", kMatrix));
  add_scales("_scale_inv", {2, 2});
  EXPECT_EQ(refusal(checkpoint_), scales + "expected 128 x 1 scales, found 2 x 2\n");
  nlohmann::json &config = checkpoint_.config["quantization_config"];
  config["weight_block_size"] = {128, 128};
  EXPECT_EQ(refusal(checkpoint_), scales + "expected 1 x 2 scales, found 2 x 2\n");
  config["weight_block_size"] = {128, 0};
  const std::string file = "/config.json: quantization_config.";
  EXPECT_EQ(refusal(checkpoint_), file + "weight_block_size: expected two whole numbers from 1 on, found [128,0]\n");
  config["fmt"] = "e5m2";
  EXPECT_EQ(refusal(checkpoint_), file + "fmt: expected \"e4m3\", found \"e5m2\"\n");
  checkpoint_.config.erase("quantization_config");
  EXPECT_EQ(refusal(checkpoint_), fmt::format(": {}: dtype: expected F32, F16 or BF16, found \"F8_E4M3\"\n", kMatrix));
}

TEST_F(ConvertFp8, NamesAWeightThatIsNotANumber) {
  add_scales("_scale", {1});
  checkpoint_.tensor(kMatrix).bytes[3 * kColumns + 5] = '\x7F';
  const Outcome outcome = convert(checkpoint_);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, fmt::format("bonsai-convert: {}: {}: row 3, column 5: expected a finite number, found nan\n",
                                     input(), kMatrix));
}

}  // namespace
}  // namespace bonsai::convert
