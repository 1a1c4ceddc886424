// Promise: damage anywhere in a file gives a File that can be used or one clean line, never a crash. (The same reader
// runs under sanitizers in tests/fuzz.)
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/gguf/file.h"
#include "core/gguf/validate.h"
#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

// Parses and uses everything. Returns whether the file was accepted.
bool survives(const std::vector<std::byte> &bytes) {
  const auto file = File::parse(bytes, "damaged");
  if (!file) {
    const std::string &message = file.error().message;
    EXPECT_TRUE(message.starts_with("damaged: ")) << message;
    EXPECT_NE(message.find(" at byte "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return false;
  }
  for (const auto &[key, value] : file->metadata()) {
    EXPECT_EQ(file->find(key), &value);
    const Array *array = value.as_array();
    if (array == nullptr) continue;
    const bool strings = array->element_type == ValueType::kString;
    EXPECT_EQ(strings ? array->strings().size() : array->numbers().value_or(std::vector<double>(array->count)).size(),
              array->count);
  }
  EXPECT_EQ(validate(*file).tensors.size(), file->tensors().size());
  return true;
}

// Each shorter file is cut off somewhere that matters: its last tensor has no padding after it.
TEST(Corruption, EveryTruncationIsRefused) {
  const std::vector<std::byte> whole = one_of_everything().bytes();
  ASSERT_TRUE(survives(whole));
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(survives({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)})) << n << " bytes";
  }
}

TEST(Corruption, EverySingleBitIsSurvived) {
  std::vector<std::byte> bytes = one_of_everything().bytes();
  int n_refused = 0;
  for (std::byte &byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      byte ^= std::byte{1} << bit;
      n_refused += !survives(bytes);
      byte ^= std::byte{1} << bit;
    }
  }
  EXPECT_GT(n_refused, 1000);
}

TEST(Corruption, EverySingleByteIsSurvived) {
  std::vector<std::byte> bytes = one_of_everything().bytes();
  for (std::byte &byte : bytes) {
    const std::byte good = byte;
    for (const int bad : {0x00, 0x01, 0x2A, 0x7F, 0x80, 0xFE, 0xFF}) {
      byte = static_cast<std::byte>(bad);
      survives(bytes);
    }
    byte = good;
  }
}

}  // namespace
}  // namespace bonsai::gguf
