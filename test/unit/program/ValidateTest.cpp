#include "gossamer/program/Validate.h"

#include "test/unit/program/ProgramBuilders.h"

#include <gtest/gtest.h>

#include <functional>

using namespace gossamer;
using namespace gossamer::test;

namespace {

/// h[src] @ w, then a view of the product's last axis, then a kernel.
Program validProgram() {
  Program p;
  p.values = {value(RowSet::Src, {2, 3}), value(RowSet::None, {3, 4}),
              value(RowSet::Src, {2, 4}), value(RowSet::Src, {2, 2}),
              value(RowSet::Dst, {2}),    value(RowSet::Dst, {2, 4})};
  p.inputs = {0, 1};
  p.steps = {gemmStep(0, 1, 2), viewStep(2, 3, 1, {4, 2}), prefixStep(2, 5),
             kernelStep("k", RowSet::Dst, {3}, {4})};
  p.outputs = {4};
  return p;
}

TEST(Validate, AcceptsAValidProgram) {
  Status status = validate(validProgram());
  EXPECT_TRUE(status.ok()) << status.error().text;
}

struct Breakage {
  const char *name;
  const char *message;
  std::function<void(Program &)> apply;
};

class ValidateRefuses : public testing::TestWithParam<Breakage> {};

TEST_P(ValidateRefuses, WithReason) {
  Program program = validProgram();
  GetParam().apply(program);
  Status status = validate(program);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text.find(GetParam().message), std::string::npos)
      << status.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    Programs, ValidateRefuses,
    testing::Values(
        Breakage{"missing_value", "value 9 does not exist",
                 [](Program &p) { p.inputs.push_back(9); }},
        Breakage{"too_many_variants", "5 variants, but at most 4",
                 [](Program &p) { p.variants.assign(4, validProgram()); }},
        Breakage{"variant_of_a_variant", "a variant has variants",
                 [](Program &p) {
                   p.variants = {validProgram()};
                   p.variants[0].variants = {validProgram()};
                 }},
        Breakage{"bad_variant", "value 9 does not exist",
                 [](Program &p) {
                   p.variants = {validProgram()};
                   p.variants[0].inputs.push_back(9);
                 }},
        Breakage{"variant_of_other_graphs", "has other graphs",
                 [](Program &p) {
                   p.variants = {validProgram()};
                   p.variants[0].graphs = 2;
                 }},
        Breakage{"variant_with_other_outputs", "has other graphs, inputs",
                 [](Program &p) {
                   p.variants = {validProgram()};
                   p.variants[0].outputs = {2};
                 }},
        Breakage{"cost_of_no_graph", "a row of graph 7 costs 1",
                 [](Program &p) { p.costs = {{RowSet::Src, 7, 1}}; }},
        Breakage{"negative_cost", "a row of graph 0 costs -1",
                 [](Program &p) { p.costs = {{RowSet::Src, 0, -1}}; }},
        Breakage{"input_twice", "defined twice",
                 [](Program &p) { p.inputs.push_back(0); }},
        Breakage{"redefined", "defined twice",
                 [](Program &p) { p.steps[3].kernel.outputs = {3}; }},
        Breakage{"use_before_definition", "used before it is defined",
                 [](Program &p) { std::swap(p.steps[0], p.steps[1]); }},
        Breakage{"undefined_output", "used before it is defined",
                 [](Program &p) {
                   p.values.push_back(value(RowSet::Dst, {1}));
                   p.outputs = {6};
                 }},
        Breakage{"graph_index", "on graph 1 of 1",
                 [](Program &p) { p.values[0].graph = 1; }},
        Breakage{"negative_axis", "has an axis of -1",
                 [](Program &p) { p.values[0].features[0] = -1; }},
        Breakage{"row_size", "too many elements",
                 [](Program &p) {
                   p.values[0].features = {int64_t(1) << 30, int64_t(1) << 30};
                 }},
        Breakage{"no_symbol", "no symbol",
                 [](Program &p) { p.steps[3].kernel.symbol.clear(); }},
        Breakage{"scratch", "bytes of scratch",
                 [](Program &p) { p.steps[3].kernel.scratchBytes = -1; }},
        Breakage{"gathered", "an edge reads -1 bytes",
                 [](Program &p) { p.steps[3].kernel.gatheredBytes = -1; }},
        Breakage{"pieces", "pieces of rows in -1 phases",
                 [](Program &p) { p.steps[3].kernel.phases = -1; }},
        Breakage{"row_work", "rows of work 0",
                 [](Program &p) { p.steps[3].kernel.rowWork = 0; }},
        Breakage{"visit_direction", "visits destination nodes by the edges of",
                 [](Program &p) { p.steps[3].kernel.visitBy = VisitBy::Src; }},
        Breakage{"kernel_output_rows", "writes a table of source nodes",
                 [](Program &p) { p.values[4].rows = RowSet::Src; }},
        Breakage{"total_of_integers", "adds up totals of int64",
                 [](Program &p) {
                   p.values[4].rows = RowSet::None;
                   p.values[4].dtype = DType::I64;
                 }},
        Breakage{"edge_table_without_edges", "writes a table of edges",
                 [](Program &p) {
                   p.values[4].rows = RowSet::Edge;
                   p.steps[3].kernel.usesEdges = false;
                 }},
        Breakage{"gemm_dtype", "gemm of int32",
                 [](Program &p) { p.values[0].dtype = DType::I32; }},
        Breakage{"gemm_mixed", "gemm of float32 and float64",
                 [](Program &p) { p.values[1].dtype = DType::F64; }},
        Breakage{"gemm_depth", "not the last axis",
                 [](Program &p) { p.values[1].features[0] = 5; }},
        Breakage{"gemm_shape", "shape of the product",
                 [](Program &p) { p.values[2].features[0] = 1; }},
        Breakage{"gemm_weight", "not a matrix",
                 [](Program &p) { p.values[1].features.push_back(1); }},
        Breakage{"view_rank", "has 1 strides",
                 [](Program &p) { p.steps[1].view.strides = {1}; }},
        Breakage{"view_outside", "leaves its source",
                 [](Program &p) { p.steps[1].view.offset = 2; }},
        Breakage{"view_negative_stride", "leaves its source",
                 [](Program &p) { p.steps[1].view.strides = {-4, 2}; }},
        Breakage{"view_huge_stride", "leaves its source",
                 [](Program &p) {
                   p.steps[1].view.strides = {INT64_MAX, INT64_MAX};
                 }},
        Breakage{"view_dtype", "changes dtype",
                 [](Program &p) { p.values[3].dtype = DType::I32; }},
        Breakage{"prefix_features", "changes dtype or features",
                 [](Program &p) { p.values[5].features = {8}; }},
        Breakage{
            "index_of_floats", "an index of float32",
            [](Program &p) { p.steps.push_back(checkIndexStep(0, 8, false)); }},
        Breakage{"index_with_features", "not one number per row",
                 [](Program &p) {
                   p.values[4].dtype = DType::I64;
                   p.steps.push_back(checkIndexStep(4, 8, false));
                 }},
        Breakage{"index_without_rows", "not one number per row",
                 [](Program &p) {
                   p.values.push_back(value(RowSet::None, {}, DType::I64));
                   p.inputs.push_back(6);
                   p.steps.push_back(checkIndexStep(6, 8, false));
                 }},
        Breakage{"index_into_nothing", "an index into 0 rows",
                 [](Program &p) {
                   p.values.push_back(value(RowSet::Dst, {}, DType::I64));
                   p.inputs.push_back(6);
                   p.steps.push_back(checkIndexStep(6, 0, false));
                 }},
        Breakage{"prefix_rows", "without rows",
                 [](Program &p) { p.values[5].rows = RowSet::None; }}),
    [](const auto &test) { return std::string(test.param.name); });

} // namespace
