#include "gossamer/runtime/Plan.h"

#include "test/unit/runtime/TestPrograms.h"

#include <gtest/gtest.h>

using namespace gossamer;
using namespace gossamer::test;

namespace {

int copies(const Plan &plan) {
  int count = 0;
  for (const PlanStep &step : plan.steps)
    count += step.kind == PlanStep::Kind::Copy;
  return count;
}

/// An input parameter of shape `shape`, and views of views of it.
Program viewChain(std::vector<int64_t> shape,
                  std::vector<std::pair<std::vector<int64_t>, Step>> views) {
  Program program;
  program.values = {value(RowSet::None, std::move(shape))};
  program.inputs = {0};
  for (auto &[features, step] : views) {
    program.values.push_back(value(RowSet::None, features));
    program.steps.push_back(step);
  }
  return program;
}

TEST(Plan, TransposedSliceIsComposed) {
  // [4, 6], columns 2..5 as [4, 3], transposed to [3, 4].
  Plan plan =
      makePlan(viewChain({4, 6}, {{{4, 3}, viewStep(0, 1, 2, {6, 1})},
                                  {{3, 4}, viewStep(1, 2, 0, {1, 3})}}));
  EXPECT_EQ(copies(plan), 0);
  const Place &place = plan.values[2].place;
  EXPECT_EQ(place.root, 0u);
  EXPECT_EQ(place.offset, 2);
  EXPECT_EQ(place.strides, (std::vector<int64_t>{1, 6}));
  EXPECT_FALSE(place.dense);
}

TEST(Plan, FlatteningATransposeCopies) {
  Plan plan = makePlan(viewChain({4, 6}, {{{6, 4}, viewStep(0, 1, 0, {1, 6})},
                                          {{24}, viewStep(1, 2, 0, {1})}}));
  EXPECT_EQ(copies(plan), 1);
  EXPECT_TRUE(plan.values[2].place.dense);
}

TEST(Plan, ReshapeOfADenseTableIsFree) {
  Plan plan = makePlan(viewChain({4, 6}, {{{2, 12}, viewStep(0, 1, 0, {12, 1})},
                                          {{24}, viewStep(1, 2, 0, {1})}}));
  EXPECT_EQ(copies(plan), 0);
  EXPECT_TRUE(plan.values[2].place.dense);
}

TEST(Plan, SliceOfALeadingAxisIsDense) {
  Plan plan =
      makePlan(viewChain({4, 6}, {{{2, 6}, viewStep(0, 1, 12, {6, 1})}}));
  EXPECT_TRUE(plan.values[1].place.dense);
  EXPECT_EQ(plan.values[1].place.offset, 12);
}

TEST(Plan, EmptyViewsHaveAPlace) {
  Plan plan = makePlan(viewChain({4, 0}, {{{0, 4}, viewStep(0, 1, 0, {1, 0})},
                                          {{0}, viewStep(1, 2, 0, {1})}}));
  EXPECT_EQ(copies(plan), 0);
}

TEST(Plan, FeatureSliceOfRowsIsCopiedForAKernelOnce) {
  Program program;
  program.values = {value(RowSet::Dst, {6}), value(RowSet::Dst, {3}),
                    value(RowSet::Dst, {1}), value(RowSet::Dst, {1})};
  program.inputs = {0};
  program.steps = {viewStep(0, 1, 3, {1}),
                   kernelStep("a", RowSet::Dst, {1}, {2}),
                   kernelStep("b", RowSet::Dst, {1, 2}, {3})};
  program.outputs = {3};
  Plan plan = makePlan(program);
  EXPECT_EQ(copies(plan), 1);
}

TEST(Plan, OutputsNeverShareMemory) {
  Program program = sumProgram();
  // The result twice, the input itself, and a view of the result.
  program.values.push_back(value(RowSet::Dst, {1}));
  program.steps.push_back(viewStep(1, 2, 1, {1}));
  program.outputs = {1, 1, 0, 2};
  Plan plan = makePlan(program);
  EXPECT_EQ(copies(plan), 3);
  EXPECT_EQ(plan.values[1].owner, Plan::Owner::Output);
}

TEST(Plan, InputsThatOnlyUnusedViewsNameAreNotRead) {
  Program program = sumProgram();
  program.values.push_back(value(RowSet::Dst, {6}));
  program.values.push_back(value(RowSet::Dst, {3}));
  program.inputs.push_back(2);
  program.steps.push_back(viewStep(2, 3, 3, {1}));
  EXPECT_TRUE(makePlan(program).values[0].isRead);
  EXPECT_FALSE(makePlan(program).values[2].isRead);
  program.outputs.push_back(3);
  EXPECT_TRUE(makePlan(program).values[2].isRead);
}

TEST(Plan, MatrixRowsNeedOneDistance) {
  Plan::Value dense{value(RowSet::Src, {4, 8}), {0, 0, 32, {8, 1}, true}};
  ASSERT_TRUE(matrixRows(dense));
  EXPECT_EQ(matrixRows(dense)->perRow, 4);
  EXPECT_EQ(matrixRows(dense)->stride, 8);

  Plan::Value sliced{value(RowSet::Src, {8}), {0, 0, 32, {1}, false}};
  ASSERT_TRUE(matrixRows(sliced));
  EXPECT_EQ(matrixRows(sliced)->stride, 32);

  Plan::Value gaps{value(RowSet::Src, {4, 8}), {0, 0, 64, {8, 1}, false}};
  EXPECT_FALSE(matrixRows(gaps));

  Plan::Value single{value(RowSet::Src, {1, 8}), {0, 0, 64, {5, 1}, false}};
  ASSERT_TRUE(matrixRows(single));
  EXPECT_EQ(matrixRows(single)->stride, 64);
}

} // namespace
