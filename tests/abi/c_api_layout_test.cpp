// The C API as numbers: what a program that was built yesterday relies on. The table is the promise; when a test here
// fails, the header is wrong, not the table.
#include <bonsai/bonsai.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/abi/header_text.h"

namespace {

const std::string kHeader = bonsai::test::read_file(BONSAI_SOURCE_DIR "/host/include/bonsai/bonsai.h");
const std::string kTable = bonsai::test::read_file(BONSAI_SOURCE_DIR "/tests/abi/c_api_layout.inc");

TEST(CApiLayout, EveryStructFieldAndConstantIsWhereItWas) {
#define SIZE(type, bytes) EXPECT_EQ(sizeof(type), size_t{bytes}) << #type;
#define ELEMENT(type, bytes) SIZE(type, bytes)
#define FIELD(type, field, offset) EXPECT_EQ(offsetof(type, field), size_t{offset}) << #type "::" #field;
#define CONSTANT(name, value) EXPECT_EQ(static_cast<uint64_t>(name), uint64_t{value}) << #name;
#include "tests/abi/c_api_layout.inc"
#undef SIZE
#undef ELEMENT
#undef FIELD
#undef CONSTANT
}

// A reader must know a struct's size before it knows anything else of it.
TEST(CApiLayout, EveryStructBeginsWithItsSize) {
#define SIZE(type, bytes)                     \
  EXPECT_EQ(offsetof(type, struct_size), 0u); \
  EXPECT_EQ(sizeof(type::struct_size), 4u);
#define ELEMENT(type, bytes)
#define FIELD(type, field, offset)
#define CONSTANT(name, value)
#include "tests/abi/c_api_layout.inc"
#undef SIZE
#undef ELEMENT
#undef FIELD
#undef CONSTANT
}

// Padding at an end would let a new field go where an older caller's bytes mean nothing, and its size would not tell.
TEST(CApiLayout, NoStructEndsInPadding) {
#define SIZE(type, bytes)                            \
  EXPECT_EQ(last_end, last_size) << "before " #type; \
  last_end = 0;                                      \
  last_size = sizeof(type);
#define ELEMENT(type, bytes) SIZE(type, bytes)
#define FIELD(type, field, offset) last_end = offset + sizeof(type::field);
#define CONSTANT(name, value)
  size_t last_end = 0, last_size = 0;
#include "tests/abi/c_api_layout.inc"
  EXPECT_EQ(last_end, last_size);
#undef SIZE
#undef ELEMENT
#undef FIELD
#undef CONSTANT
}

// What is new in the header must get its line in the table, or nothing would watch over it.
TEST(CApiLayout, TheTableNamesEveryStructAndConstantOfTheHeader) {
  const std::vector<std::string> structs = bonsai::test::open_structs(kHeader);
  for (const std::string &name : structs)
    EXPECT_TRUE(kTable.find("SIZE(" + name + ",") != kTable.npos || kTable.find("ELEMENT(" + name + ",") != kTable.npos)
        << name;
  EXPECT_EQ(structs.size(), 11u);
  const std::vector<std::string> constants = bonsai::test::after(kHeader, "  BONSAI_", " =");
  for (const std::string &name : constants)
    EXPECT_NE(kTable.find("CONSTANT(BONSAI_" + name + ","), std::string::npos) << name;
  EXPECT_EQ(constants.size(), 21u);
}

// A file may include both: a name of one that the other has too would mean whichever came first.
TEST(CApiHeader, SharesNoNameWithTheAbi) {
  const std::set<std::string> of_library = bonsai::test::names_in(kHeader);
  const std::set<std::string> of_abi =
      bonsai::test::names_in(bonsai::test::read_file(BONSAI_SOURCE_DIR "/abi/include/bonsai/backend.h"));
  EXPECT_GT(of_library.size(), 80u);
  EXPECT_GT(of_abi.size(), 80u);
  std::vector<std::string> shared;
  std::ranges::set_intersection(of_library, of_abi, std::back_inserter(shared));
  EXPECT_EQ(shared, std::vector<std::string>());
}

TEST(CApiHeader, IncludesStdintAndNothingElse) {
  EXPECT_EQ(bonsai::test::after(kHeader, "#include ", "\n"), (std::vector<std::string>{"<stdint.h>"}));
}

}  // namespace
