// The measure of the memory: that it reads all of what it says, with any number of threads.
#include "host/bench/stream.h"

#include <gtest/gtest.h>

namespace bonsai::bench {
namespace {

// measure_stream adds up what it read and fails if a word is missing.
TEST(Stream, EveryThreadReadsItsPieceWhateverTheSizes) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{1000003}}) {
      const auto speed = measure_stream(threads, bytes, 2);
      ASSERT_TRUE(speed) << speed.error().message;
      EXPECT_GT(speed->bytes_per_second, 0);
      EXPECT_EQ(speed->threads, threads);
      EXPECT_GE(speed->bytes, bytes);
      EXPECT_LT(speed->bytes, bytes + 4096 * static_cast<uint64_t>(threads)) << "whole pages, no more";
    }
  }
}

TEST(Stream, MemoryThatIsNotToBeHadIsAnError) {
  const auto speed = measure_stream(1, uint64_t{1} << 60, 1);
  ASSERT_FALSE(speed);
  EXPECT_EQ(speed.error().message,
            "cannot map 1152921504606846976 bytes to measure the memory: Cannot allocate memory");
}

TEST(Stream, TheMeasureIsAtLeastOneGibibyte) { EXPECT_GE(stream_bytes(), uint64_t{1} << 30); }

TEST(Stream, TheMeasureIsAtLeastFourCaches) { EXPECT_GE(stream_bytes(), 4 * last_level_cache_bytes()); }

}  // namespace
}  // namespace bonsai::bench
