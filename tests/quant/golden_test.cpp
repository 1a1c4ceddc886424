// Promise: blocks are ggml's, to the bit. tests/data/quant-golden.json holds rows of floats, the blocks that ggml's
// reference quantiser makes of them, and the values that its reference dequantiser reads back.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

struct GoldenFormat {
  const char *key;
  Format format;
  std::set<std::string> inexact_rows;  // rows whose encoding the golden file does not promise
};

const GoldenFormat kGoldenFormats[] = {
    {"f16", Format::kF16, {}},
    {"bf16", Format::kBF16, {}},
    {"q8_0", Format::kQ8_0, {}},
    {"q4_0", Format::kQ4_0, {}},
    {"q1_0", Format::kQ1_0_G128, {}},
    {"q2_0", Format::kQ2_0_G64, {}},
    {"pq2_0", Format::kTQ2_0_G128, {"normal", "small", "uniform", "outlier"}},
};

int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::vector<std::byte> from_hex(const std::string &hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(hex_digit(hex[2 * i]) * 16 + hex_digit(hex[2 * i + 1]));
  }
  return bytes;
}

std::vector<float> floats_from_hex(const std::string &hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Golden : public testing::TestWithParam<GoldenFormat> {
 protected:
  void SetUp() override {
    std::ifstream file(BONSAI_TEST_DATA "/quant-golden.json");
    golden_ = nlohmann::json::parse(file);
    cases_ = golden_["formats"][GetParam().key]["cases"];
    ASSERT_EQ(cases_.size(), 7u);
  }
  const FormatTraits &format() const { return traits(GetParam().format); }

  nlohmann::json golden_;
  nlohmann::json cases_;
};

TEST_P(Golden, GeometryAndTypeIdAreThoseOfTheFile) {
  const auto &entry = golden_["formats"][GetParam().key];
  EXPECT_EQ(format().gguf_type, entry["id"].get<uint32_t>());
  EXPECT_EQ(format().block_weights, entry["block"].get<uint32_t>());
  EXPECT_EQ(format().block_bytes, entry["bytes"].get<uint32_t>());
}

TEST_P(Golden, DecodeIsBitExact) {
  for (const auto &[row, entry] : cases_.items()) {
    const std::vector<std::byte> blocks = from_hex(entry["blocks"]);
    const std::vector<float> expected = floats_from_hex(entry["values"]);
    ASSERT_EQ(blocks.size(), row_bytes(format(), expected.size()));
    std::vector<float> values(expected.size());
    format().decode(blocks.data(), values.data(), values.size());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << row;
  }
}

TEST_P(Golden, EncodeIsByteExact) {
  int n_rows = 0;
  for (const auto &[row, entry] : cases_.items()) {
    if (GetParam().inexact_rows.contains(row)) continue;
    const std::vector<float> weights = floats_from_hex(golden_["rows"][row]);
    std::vector<std::byte> blocks(row_bytes(format(), weights.size()));
    format().encode(weights.data(), blocks.data(), weights.size());
    EXPECT_EQ(blocks, from_hex(entry["blocks"])) << row;
    ++n_rows;
  }
  EXPECT_GE(n_rows, 3);
}

INSTANTIATE_TEST_SUITE_P(Formats, Golden, testing::ValuesIn(kGoldenFormats),
                         [](const auto &info) { return std::string(info.param.key); });

}  // namespace
}  // namespace bonsai::quant
