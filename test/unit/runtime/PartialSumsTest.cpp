#include "gossamer/runtime/PartialSums.h"

#include <gtest/gtest.h>

using namespace gossamer;

namespace {

constexpr int64_t kMiB = int64_t(1) << 20;

TEST(PartialSums, SmallPartsTakeFourMiB) {
  EXPECT_EQ(affordableParts(16 << 10, 10'000), 256);
  EXPECT_EQ(affordableParts(16 << 10, 100), 100);
}

TEST(PartialSums, LargePartsTakeSixteenMiBForThreads) {
  EXPECT_EQ(affordableParts(kMiB / 8, 512), 64);
  EXPECT_EQ(affordableParts(kMiB, 512), 16);
  EXPECT_EQ(affordableParts(kMiB, 4), 4);
}

TEST(PartialSums, ThereIsAlwaysOne) {
  EXPECT_EQ(affordableParts(64 * kMiB, 512), 1);
  EXPECT_EQ(affordableParts(64, 0), 1);
  EXPECT_EQ(affordableParts(0, 3), 3);
}

} // namespace
