#include "gossamer/runtime/Schedule.h"

#include "test/unit/program/ProgramBuilders.h"

#include <gtest/gtest.h>

using namespace gossamer;
using namespace gossamer::test;

namespace {

constexpr CacheSizes kCaches{1 << 20, 32 << 20};

Schedule choose(Workload work) { return chooseSchedule(work, kCaches); }

TEST(Schedule, TablesInTheCacheOfACoreAreNotPrefetched) {
  EXPECT_EQ(choose({1000, 2048, 256, 0}).prefetch, 0);
  EXPECT_GT(choose({1000, 2049, 256, 0}).prefetch, 0);
  EXPECT_EQ(choose({1000, 1 << 20, 0, 0}).prefetch, 0);
}

TEST(Schedule, WideRowsArePrefetchedFewerEdgesAhead) {
  int64_t before = INT64_MAX;
  for (int64_t bytes : {4, 64, 256, 1024, 4096, 1 << 20}) {
    int64_t ahead = choose({1 << 20, 1 << 20, bytes, 0}).prefetch;
    EXPECT_GE(ahead, 8);
    EXPECT_LE(ahead, before);
    before = ahead;
  }
}

TEST(Schedule, ResultsThatTheCacheOfACoreHoldsAreNotStreamed) {
  EXPECT_FALSE(choose({0, 0, 0, 1 << 20}).stream);
  EXPECT_TRUE(choose({0, 0, 0, (1 << 20) + 64}).stream);
}

TEST(Schedule, PiecesAreAShareOfTheEdges) {
  EXPECT_EQ(choose({20'000, 0, 0, 0, 20'000}).pieceEdges, 1 << 14);
  EXPECT_EQ(choose({64 * 100'000, 0, 0, 0, 200'000}).pieceEdges,
            100'000 / 64 * 64);
}

TEST(Schedule, RowsStayWholeWhereNoneIsHeavyOrCanBeCut) {
  EXPECT_EQ(choose({1'000'000, 0, 0, 0, 1 << 14}).pieceEdges, kWholeRows);
  EXPECT_EQ(choose({1'000'000, 0, 0, 0, 0}).pieceEdges, kWholeRows);
}

TEST(Schedule, ChoicesReplaceWhatTheyName) {
  Schedule model{3, true, 640};
  EXPECT_EQ(ScheduleChoices().over(model), model);
  EXPECT_EQ((ScheduleChoices{0, {}, {}}.over(model)), (Schedule{0, true, 640}));
  EXPECT_EQ((ScheduleChoices{{}, false, 5}.over(model)),
            (Schedule{3, false, 64}));
}

TEST(Schedule, WorkOfAKernel) {
  Program program;
  program.values = {value(RowSet::Src, {8}), value(RowSet::Dst, {4}),
                    value(RowSet::Edge, {}, DType::F64),
                    value(RowSet::None, {100})};
  program.steps = {kernelStep("k", RowSet::Dst, {0}, {1, 2, 3})};
  KernelStep &step = program.steps[0].kernel;
  step.gatheredBytes = 32;
  GraphArrays graph;
  graph.numSrc = 7;
  graph.numDst = 5;
  graph.numEdges = 9;
  graph.maxInDegree = 6;
  Workload work = workloadOf(program, step, {&graph, 1});
  EXPECT_EQ(work.edges, 9);
  EXPECT_EQ(work.gatheredRows, 7);
  EXPECT_EQ(work.gatheredBytes, 32);
  EXPECT_EQ(work.resultBytes, 5 * 16 + 9 * 8); // the total has no rows
  EXPECT_EQ(work.mostEdges, 0);
  step.phases = 1;
  EXPECT_EQ(workloadOf(program, step, {&graph, 1}).mostEdges, 6);
  step.usesEdges = false;
  EXPECT_EQ(workloadOf(program, step, {&graph, 1}).edges, 0);
}

} // namespace
