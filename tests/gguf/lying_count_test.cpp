// Promise: memory follows what a file holds, never what it claims. Every allocation of this program is counted here.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "core/gguf/file.h"
#include "tests/gguf/file_bytes.h"

namespace {

std::atomic<size_t> allocated_bytes = 0;

}  // namespace

void *operator new(size_t size) {
  allocated_bytes += size;
  if (void *memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace bonsai::gguf {
namespace {

// Bytes that refusing `bytes` allocates, everything counted.
size_t cost_of_refusing(const FileBytes &bytes) {
  const size_t before = allocated_bytes;
  const auto file = File::parse(bytes.bytes(), "lying.gguf");
  EXPECT_FALSE(file);
  return allocated_bytes - before;
}

constexpr uint64_t kLie = uint64_t{1} << 60;
// A message or two, and what a handful of real items take.
constexpr size_t kModest = 16384;

TEST(LyingCount, OfTensors) {
  FileBytes file;
  EXPECT_LT(cost_of_refusing(file.header(kLie, 0).zeros(1000)), kModest);
}

TEST(LyingCount, OfMetadata) {
  FileBytes file;
  EXPECT_LT(cost_of_refusing(file.header(0, kLie).zeros(1000)), kModest);
}

TEST(LyingCount, OfMetadataThatTheFileCouldJustHold) {
  FileBytes file;
  EXPECT_LT(cost_of_refusing(file.header(0, 100000).key("a", static_cast<ValueType>(50)).zeros(1400000)), kModest);
}

TEST(LyingCount, OfArrayElements) {
  for (const ValueType type : {ValueType::kUint8, ValueType::kFloat64, ValueType::kString, ValueType::kBool}) {
    FileBytes file;
    EXPECT_LT(cost_of_refusing(file.header(0, 1).array("k", type, kLie).zeros(1000)), kModest);
  }
}

TEST(LyingCount, OfStringBytes) {
  FileBytes file;
  EXPECT_LT(cost_of_refusing(file.header(0, 1).key("k", ValueType::kString).u64(kLie).zeros(1000)), kModest);
}

TEST(LyingCount, OfDimensions) {
  FileBytes file;
  EXPECT_LT(cost_of_refusing(file.header(1, 0).text("t").u32(UINT32_MAX).zeros(1000)), kModest);
}

TEST(LyingCount, OfWeights) {
  FileBytes file;
  EXPECT_LT(cost_of_refusing(file.header(1, 0).tensor("t", {128, kLie >> 10}, 41, 0).align().zeros(1000)), kModest);
}

// A large array that is really there costs nothing until it is asked for.
TEST(HonestCount, ArraysStayInTheFile) {
  FileBytes bytes;
  bytes.header(0, 1).array("k", ValueType::kString, 100000);
  for (int i = 0; i < 100000; ++i) bytes.text("token");
  const size_t before = allocated_bytes;
  const auto file = File::parse(bytes.bytes(), "large.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_LT(allocated_bytes - before, kModest);
  EXPECT_EQ(file->find("k")->as_array()->strings().size(), 100000u);
}

}  // namespace
}  // namespace bonsai::gguf
