// Promise: blocks are ggml's, to the bit. tests/data/quant-golden.json holds rows of floats, the blocks that ggml's
// reference quantiser makes of them, and the values that its reference dequantiser reads back.
#include <gtest/gtest.h>

#include <cmath>
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

const std::set<std::string> kNotTernary = {"normal", "small", "uniform", "outlier"};

const GoldenFormat kGoldenFormats[] = {
    {"f16", Format::kF16, {}},
    {"bf16", Format::kBF16, {}},
    {"q8_0", Format::kQ8_0, {}},
    {"q4_0", Format::kQ4_0, {}},
    {"q1_0", Format::kQ1_0_G128, {}},
    {"q2_0", Format::kQ2_0_G64, {}},
    {"pq2_0", Format::kTQ2_0_G128, kNotTernary},
    {"ptq1_0", Format::kTQ1_0_G128, kNotTernary},
    {"tq2_0", Format::kTQ2_0, {}},
    {"tq1_0", Format::kTQ1_0, {}},
    {"q4_1", Format::kQ4_1, {}},
    {"q5_0", Format::kQ5_0, {}},
    {"q5_1", Format::kQ5_1, {}},
};

// Whose encoders are our own.
const GoldenFormat kSearchedFormats[] = {
    {"q2_K", Format::kQ2_K, {}}, {"q3_K", Format::kQ3_K, {}}, {"q4_K", Format::kQ4_K, {}},
    {"q5_K", Format::kQ5_K, {}}, {"q6_K", Format::kQ6_K, {}}, {"q8_K", Format::kQ8_K, {}},
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

double rms_error(const std::vector<float> &weights, const std::vector<float> &values) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double rest = static_cast<double>(weights[i]) - static_cast<double>(values[i]);
    sum += rest * rest;
  }
  return std::sqrt(sum / static_cast<double>(weights.size()));
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

class GoldenExact : public Golden {};
class GoldenSearched : public Golden {};

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

TEST_P(GoldenExact, EncodeIsByteExact) {
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

// Of a row encoded by us and by ggml: sqrt(mean((weight - decoded weight)^2)). Two searches end in different blocks,
// and either may be ahead by a little in some row.
TEST_P(GoldenSearched, EncodeLosesAtMostHalfAPercentMoreThanGgml) {
  for (const auto &[row, entry] : cases_.items()) {
    const std::vector<float> weights = floats_from_hex(golden_["rows"][row]);
    const double expected = rms_error(weights, floats_from_hex(entry["values"]));
    std::vector<std::byte> blocks(row_bytes(format(), weights.size()));
    std::vector<float> values(weights.size());
    format().encode(weights.data(), blocks.data(), weights.size());
    format().decode(blocks.data(), values.data(), values.size());
    EXPECT_LE(rms_error(weights, values), 1.005 * expected) << row;
  }
}

std::string name_of(const testing::TestParamInfo<GoldenFormat> &info) { return info.param.key; }

INSTANTIATE_TEST_SUITE_P(Formats, Golden, testing::ValuesIn(kGoldenFormats), name_of);
INSTANTIATE_TEST_SUITE_P(SearchedFormats, Golden, testing::ValuesIn(kSearchedFormats), name_of);
INSTANTIATE_TEST_SUITE_P(Formats, GoldenExact, testing::ValuesIn(kGoldenFormats), name_of);
INSTANTIATE_TEST_SUITE_P(Formats, GoldenSearched, testing::ValuesIn(kSearchedFormats), name_of);

}  // namespace
}  // namespace bonsai::quant
