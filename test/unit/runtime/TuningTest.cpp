#include "gossamer/runtime/Tuning.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace gossamer;

namespace {

GraphArrays graphOf(int64_t nodes, int64_t edges) {
  GraphArrays graph;
  graph.numSrc = graph.numDst = nodes;
  graph.numEdges = edges;
  return graph;
}

TEST(Tuning, ShapeClassesAreSizesToAPowerOfTwo) {
  GraphArrays a = graphOf(1000, 5000), b = graphOf(1023, 8000),
              c = graphOf(1024, 5000);
  EXPECT_EQ(shapeClassOf({&a, 1}), shapeClassOf({&b, 1}));
  EXPECT_NE(shapeClassOf({&a, 1}), shapeClassOf({&c, 1}));
}

TEST(Tuning, ChoicesAreKeptForTheirClass) {
  TunedSchedules tuned;
  GraphArrays a = graphOf(1000, 5000), same = graphOf(999, 4999),
              other = graphOf(5, 5);
  EXPECT_TRUE(tuned.find({&a, 1}).empty());
  tuned.keep({&a, 1}, {{16, {}, {}}});
  ASSERT_EQ(tuned.find({&same, 1}).size(), 1u);
  EXPECT_EQ(tuned.find({&same, 1})[0].prefetch, 16);
  EXPECT_TRUE(tuned.find({&other, 1}).empty());
}

/// Step 0 is fastest near 60 edges ahead and streaming, step 1 the other way.
TEST(Tuning, TheFastestOfEachStepWins) {
  auto found = fastestChoices(
      2, [](const std::vector<ScheduleChoices> &choices, auto seconds) {
        double ahead = double(choices[0].prefetch.value_or(1000));
        seconds[0] = std::abs(ahead - 60) + !choices[0].stream.value_or(true);
        seconds[1] = double(choices[1].prefetch.value_or(1000)) +
                     choices[1].stream.value_or(true);
        return Status();
      });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value()[0].prefetch, 64);
  EXPECT_EQ(found.value()[0].stream, true);
  EXPECT_EQ(found.value()[1].prefetch, 0);
  EXPECT_EQ(found.value()[1].stream, false);
}

TEST(Tuning, AnErrorOfARunEndsIt) {
  auto found = fastestChoices(1, [](const auto &, auto) {
    return Status(makeError(ErrorCode::OutOfMemory, "no memory"));
  });
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().text, "no memory");
}

} // namespace
