// The ABI as numbers: what a backend that was built yesterday relies on. The table is the promise; when a test here
// fails, the header is wrong, not the table.
#include <bonsai/backend.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/quant/format.h"
#include "tests/abi/header_text.h"

namespace {

// No struct may grow in the middle or shrink. Its size may grow with a new field, which is then a new line.
TEST(AbiLayout, EveryStructFieldAndConstantIsWhereItWas) {
#define SIZE(type, bytes) EXPECT_EQ(sizeof(type), size_t{bytes}) << #type;
#define FIELD(type, field, offset) EXPECT_EQ(offsetof(type, field), size_t{offset}) << #type "::" #field;
#define CONSTANT(name, value) EXPECT_EQ(static_cast<uint64_t>(name), uint64_t{value}) << #name;
#include "tests/abi/layout.inc"
#undef SIZE
#undef FIELD
#undef CONSTANT
}

// A struct that is new in the header must get its lines in the table, or nothing would watch over it.
TEST(AbiLayout, TheTableNamesEveryStructOfTheHeader) {
  const std::string header = bonsai::test::read_file(BONSAI_SOURCE_DIR "/abi/include/bonsai/backend.h");
  const std::string table = bonsai::test::read_file(BONSAI_SOURCE_DIR "/tests/abi/layout.inc");
  const std::vector<std::string> structs = bonsai::test::open_structs(header);
  for (const std::string &name : structs) EXPECT_NE(table.find("SIZE(" + name + ","), std::string::npos) << name;
  EXPECT_EQ(structs.size(), 20u);
}

// Every struct that crosses begins with its size: a reader must know it before it knows anything else.
TEST(AbiLayout, EveryStructBeginsWithItsSize) {
#define SIZE(type, bytes)                     \
  EXPECT_EQ(offsetof(type, struct_size), 0u); \
  EXPECT_EQ(sizeof(type::struct_size), 4u);
#define FIELD(type, field, offset)
#define CONSTANT(name, value)
#include "tests/abi/layout.inc"
#undef SIZE
#undef FIELD
#undef CONSTANT
}

TEST(AbiHeader, IncludesStddefAndStdintAndNothingElse) {
  const std::string header = bonsai::test::read_file(BONSAI_SOURCE_DIR "/abi/include/bonsai/backend.h");
  EXPECT_EQ(bonsai::test::after(header, "#include ", "\n"), (std::vector<std::string>{"<stddef.h>", "<stdint.h>"}));
}

// The host passes quant::Format on as bonsai_dtype.
TEST(AbiDtypes, EqualTheFormatsOfCore) {
  using bonsai::quant::Format;
  EXPECT_EQ(static_cast<uint32_t>(Format::kF32), uint32_t{BONSAI_DTYPE_F32});
  EXPECT_EQ(static_cast<uint32_t>(Format::kF16), uint32_t{BONSAI_DTYPE_F16});
  EXPECT_EQ(static_cast<uint32_t>(Format::kBF16), uint32_t{BONSAI_DTYPE_BF16});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ8_0), uint32_t{BONSAI_DTYPE_Q8_0});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ4_0), uint32_t{BONSAI_DTYPE_Q4_0});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ1_0_G128), uint32_t{BONSAI_DTYPE_Q1_0_G128});
  EXPECT_EQ(static_cast<uint32_t>(Format::kTQ2_0_G128), uint32_t{BONSAI_DTYPE_TQ2_0_G128});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ2_0_G64), uint32_t{BONSAI_DTYPE_Q2_0_G64});
  EXPECT_EQ(static_cast<uint32_t>(Format::kTQ1_0_G128), uint32_t{BONSAI_DTYPE_TQ1_0_G128});
  EXPECT_EQ(static_cast<uint32_t>(Format::kTQ2_0), uint32_t{BONSAI_DTYPE_TQ2_0});
  EXPECT_EQ(static_cast<uint32_t>(Format::kTQ1_0), uint32_t{BONSAI_DTYPE_TQ1_0});
  EXPECT_EQ(static_cast<uint32_t>(Format::kF8_E4M3), uint32_t{BONSAI_DTYPE_F8_E4M3});
  EXPECT_EQ(static_cast<uint32_t>(Format::kF8_E5M2), uint32_t{BONSAI_DTYPE_F8_E5M2});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ4_1), uint32_t{BONSAI_DTYPE_Q4_1});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ5_0), uint32_t{BONSAI_DTYPE_Q5_0});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ5_1), uint32_t{BONSAI_DTYPE_Q5_1});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ2_K), uint32_t{BONSAI_DTYPE_Q2_K});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ3_K), uint32_t{BONSAI_DTYPE_Q3_K});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ4_K), uint32_t{BONSAI_DTYPE_Q4_K});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ5_K), uint32_t{BONSAI_DTYPE_Q5_K});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ6_K), uint32_t{BONSAI_DTYPE_Q6_K});
  EXPECT_EQ(static_cast<uint32_t>(Format::kQ8_K), uint32_t{BONSAI_DTYPE_Q8_K});
  EXPECT_EQ(static_cast<uint32_t>(Format::kIQ4_NL), uint32_t{BONSAI_DTYPE_IQ4_NL});
  EXPECT_EQ(static_cast<uint32_t>(Format::kIQ4_XS), uint32_t{BONSAI_DTYPE_IQ4_XS});
  EXPECT_EQ(bonsai::quant::formats().size(), 24u) << "a new format needs its line above";
}

}  // namespace
