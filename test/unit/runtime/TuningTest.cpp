#include "gossamer/runtime/Tuning.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

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

TEST(Tuning, WaysAreKeptForTheirClass) {
  TunedWays tuned;
  GraphArrays a = graphOf(1000, 5000), same = graphOf(999, 4999),
              other = graphOf(5, 5);
  EXPECT_FALSE(tuned.find({&a, 1}));
  tuned.keep({&a, 1}, {1, {{16, {}, {}}}});
  std::optional<Way> found = tuned.find({&same, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->variant, 1u);
  ASSERT_EQ(found->choices.size(), 1u);
  EXPECT_EQ(found->choices[0].prefetch, 16);
  EXPECT_FALSE(tuned.find({&other, 1}));
}

/// Step 0 is fastest near 60 edges ahead and streaming, step 1 the other way.
TEST(Tuning, TheFastestOfEachStepWins) {
  std::vector<int64_t> noneIsCut(2, 0);
  auto found = fastestChoices(
      noneIsCut, [](const std::vector<ScheduleChoices> &choices, auto seconds) {
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

/// Small pieces are the fastest, for steps that have rows to cut.
TEST(Tuning, PiecesAreMeasuredWhereRowsAreCut) {
  std::vector<int64_t> mostEdges = {0, 1 << 13, 1 << 20};
  int64_t least = kWholeRows;
  auto measure = [&](const std::vector<ScheduleChoices> &choices,
                     auto seconds) {
    for (size_t step = 0; step < choices.size(); ++step) {
      int64_t piece = choices[step].pieceEdges.value_or(kWholeRows);
      least = std::min(least, piece);
      // Step 2 is fastest in pieces of 2^14.
      seconds[step] =
          step == 2 ? std::abs(std::log2(double(piece)) - 14) : double(piece);
    }
    return Status();
  };
  auto found = fastestChoices(mostEdges, measure);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value()[0].pieceEdges, kWholeRows);
  EXPECT_EQ(found.value()[1].pieceEdges, 1 << 12);
  EXPECT_EQ(found.value()[2].pieceEdges, 1 << 14);
  EXPECT_EQ(least, 1 << 12);
  least = kWholeRows;
  ASSERT_TRUE(fastestChoices({mostEdges.data(), 1}, measure).ok());
  EXPECT_EQ(least, kWholeRows);
}

TEST(Tuning, TheFastestWayWins) {
  auto found = fastestWay(3, [](size_t way) {
    std::this_thread::sleep_for(std::chrono::milliseconds(way == 1 ? 0 : 20));
    return Status();
  });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value(), 1u);
}

TEST(Tuning, OneWayIsNotRun) {
  auto found = fastestWay(1, [](size_t) {
    return Status(makeError(ErrorCode::Internal, "it ran"));
  });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value(), 0u);
}

TEST(Tuning, AnErrorOfARunEndsIt) {
  auto noMemory = [](const auto &...) {
    return Status(makeError(ErrorCode::OutOfMemory, "no memory"));
  };
  std::vector<int64_t> mostEdges = {0};
  auto choices = fastestChoices(mostEdges, noMemory);
  ASSERT_FALSE(choices.ok());
  EXPECT_EQ(choices.error().text, "no memory");
  auto way = fastestWay(2, noMemory);
  ASSERT_FALSE(way.ok());
  EXPECT_EQ(way.error().text, "no memory");
}

} // namespace
