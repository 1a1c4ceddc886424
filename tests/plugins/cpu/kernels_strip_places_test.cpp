// Where weights lie that are read behind two strips.
#include <gtest/gtest.h>

#include "plugins/cpu/kernels/strip_places.h"

namespace bonsai::cpu {
namespace {

constexpr uintptr_t kStrips = 1 << 20;
constexpr size_t kStripBytes = 3000, kAhead = 700, kOtherBytes = 5000;

StripPlaces behind(uint64_t strips_left, const ReadingPlace &then) {
  return StripPlaces::behind(kStrips, kStripBytes, strips_left, kAhead, then);
}

const ReadingPlace kThen = {reinterpret_cast<const std::byte *>(uintptr_t{64}), kOtherBytes};

TEST(StripPlaces, AreTheNextTwoStrips) {
  for (const uint64_t strips_left : {4, 5, 100}) {
    for (const ReadingPlace &then : {kThen, ReadingPlace()}) {
      const StripPlaces places = behind(strips_left, then);
      EXPECT_EQ(places.begins[0], kStrips + 2 * kStripBytes);
      EXPECT_EQ(places.begins[1], kStrips + 3 * kStripBytes);
    }
  }
}

TEST(StripPlaces, AreTheFirstTwoOfWhatIsReadNext) {
  const StripPlaces places = behind(2, kThen);
  EXPECT_EQ(places.begins[0], 64u);
  EXPECT_EQ(places.begins[1], 64 + kOtherBytes);
}

TEST(StripPlaces, AreBehindTheLastTwoWhereNothingIsKnown) {
  const StripPlaces places = behind(2, {});
  EXPECT_EQ(places.begins[0], kStrips + 2 * kStripBytes);
  EXPECT_EQ(places.begins[1], kStrips + 3 * kStripBytes);
}

TEST(StripPlaces, AreInOneStripThatIsLeft) {
  for (const ReadingPlace &then : {kThen, ReadingPlace()}) {
    const StripPlaces places = behind(3, then);
    EXPECT_EQ(places.begins[0], kStrips + 2 * kStripBytes);
    EXPECT_EQ(places.begins[1], kStrips + 2 * kStripBytes + kAhead);
  }
}

}  // namespace
}  // namespace bonsai::cpu
