#include "gossamer/runtime/Executor.h"

#include "test/unit/runtime/ForkedChild.h"
#include "test/unit/runtime/TestPrograms.h"

#include "gossamer/runtime/ThreadPool.h"
#include "gossamer/runtime/Variants.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>

using namespace gossamer;
using namespace gossamer::test;

namespace {

std::shared_ptr<const Executor> make(Program program) {
  auto executor = Executor::create(std::move(program));
  EXPECT_TRUE(executor.ok()) << executor.error().text;
  return executor.ok() ? executor.value() : nullptr;
}

struct Outcome {
  Status status;
  std::vector<std::vector<float>> outputs;
};

Outcome run(const Executor &executor, std::vector<GraphArrays> graphs,
            std::vector<TensorView> inputs, int threads = 2) {
  static ScratchPool pool;
  ThreadPool parallel(threads);
  PlainGemm gemm(pool);
  VectorOutputs outputs;
  Status status = executor.run(graphs, inputs, {parallel, gemm, outputs, pool});
  return {std::move(status), std::move(outputs.outputs)};
}

std::string errorOf(Program program, std::vector<GraphArrays> graphs,
                    std::vector<TensorView> inputs) {
  Outcome outcome = run(*make(std::move(program)), graphs, inputs);
  return outcome.status.ok() ? "no error" : outcome.status.error().text;
}

std::vector<float> signedValues(size_t count) {
  std::mt19937 random(11);
  std::vector<float> values(count);
  for (float &x : values)
    x = float(int(random() % 201) - 100) / 8; // sums are exact
  return values;
}

/// Four sources, three destinations, a multi-edge, and one without edges.
struct SmallGraph : OwnedGraph<int32_t> {
  SmallGraph() : OwnedGraph(4, 3, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}) {}
};

std::vector<float> neighborSums(const std::vector<float> &x,
                                const std::vector<int64_t> &src,
                                const std::vector<int64_t> &dst,
                                int64_t numDst) {
  std::vector<float> y(size_t(numDst) * 3, 0);
  for (size_t e = 0; e < src.size(); ++e)
    for (size_t f = 0; f < 3; ++f)
      y[size_t(dst[e]) * 3 + f] += x[size_t(src[e]) * 3 + f];
  return y;
}

TEST(Executor, SumsNeighbors) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  Outcome outcome = run(*make(sumProgram()), {graph.view}, {x.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  EXPECT_EQ(outcome.outputs[0],
            neighborSums(x.data, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}, 3));
}

TEST(Executor, WideIndex) {
  OwnedGraph<int64_t> graph(4, 3, {0, 1, 3}, {0, 0, 2});
  OwnedTensor<float> x({4, 3}, signedValues(12));
  Program program = sumProgram();
  program.wideIndex = true;
  program.steps[0].kernel.symbol = "sum_neighbors_wide";
  Outcome outcome = run(*make(program), {graph.view}, {x.view()});
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.outputs[0], neighborSums(x.data, {0, 1, 3}, {0, 0, 2}, 3));
}

TEST(Executor, EmptyGraphs) {
  OwnedGraph<int32_t> noEdges(2, 2, {}, {}), noNodes(0, 0, {}, {});
  OwnedTensor<float> two({2, 3}, signedValues(6)), none({0, 3}, {});
  auto executor = make(sumProgram());
  Outcome outcome = run(*executor, {noEdges.view}, {two.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  EXPECT_EQ(outcome.outputs[0], std::vector<float>(6, 0.0f));
  outcome = run(*executor, {noNodes.view}, {none.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  EXPECT_TRUE(outcome.outputs[0].empty());
}

TEST(Executor, SourcesByOutEdges) {
  SmallGraph graph;
  Program program = sumProgram();
  program.values[0].rows = RowSet::Dst;
  program.values[1].rows = RowSet::Src;
  program.steps[0].kernel.rows = RowSet::Src;
  program.steps[0].kernel.visitBy = VisitBy::Src;
  OwnedTensor<float> x({3, 3}, signedValues(9));
  Outcome outcome = run(*make(program), {graph.view}, {x.view()});
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.outputs[0],
            neighborSums(x.data, {0, 0, 2, 2, 0}, {0, 1, 1, 3, 1}, 4));
}

/// The number of edges in float64, and the sums over edges; each row of the
/// sums has `features` elements, of which the kernel knows three.
Program totalsProgram(int64_t features) {
  Program program;
  program.values = {value(RowSet::Src, {3}),
                    value(RowSet::None, {}, DType::F64),
                    value(RowSet::None, {features})};
  program.inputs = {0};
  program.outputs = {2};
  program.steps = {kernelStep("add_totals", RowSet::Dst, {0}, {1, 2})};
  program.code = readObject("kernels");
  return program;
}

std::vector<float> totals(const OwnedGraph<int32_t> &graph,
                          const OwnedTensor<float> &x, int64_t features,
                          int threads) {
  Outcome outcome =
      run(*make(totalsProgram(features)), {graph.view}, {x.view()}, threads);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  return outcome.status.ok() ? outcome.outputs[0] : std::vector<float>();
}

TEST(Executor, TotalsStartAtZeroAndHaveEveryEdge) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  std::vector<float> exact(3, 0);
  for (size_t u : {0, 1, 1, 3, 1})
    for (size_t f = 0; f < 3; ++f)
      exact[f] += x.data[u * 3 + f];
  EXPECT_EQ(totals(graph, x, 3, 2), exact);
}

TEST(Executor, TotalsOfNoRowsAndNoEdgesAreZero) {
  OwnedGraph<int32_t> noEdges(2, 2, {}, {}), noNodes(0, 0, {}, {});
  OwnedTensor<float> two({2, 3}, signedValues(6)), none({0, 3}, {});
  EXPECT_EQ(totals(noEdges, two, 3, 2), std::vector<float>(3, 0.0f));
  EXPECT_EQ(totals(noNodes, none, 3, 2), std::vector<float>(3, 0.0f));
}

/// Many chunks; with 2^23 features a part of the totals takes more memory than
/// all of them should, so there is one.
TEST(Executor, TotalsHaveTheSameBitsForAnyThreads) {
  std::vector<int64_t> src(40000), dst(40000);
  for (size_t e = 0; e < src.size(); ++e) {
    src[e] = int64_t(e * 7 % 5);
    dst[e] = int64_t(e % 3);
  }
  OwnedGraph<int32_t> graph(5, 20000, src, dst);
  OwnedTensor<float> x({5, 3},
                       {0.1f, -0.7f, 3.3f, 1.7f, 0.3f, -9.1f, 0.9f, 0.01f, 2.2f,
                        1e-3f, 5.5f, 1.1f, 0.2f, -0.4f, 0.6f});
  for (int64_t features : {int64_t(3), int64_t(1) << 23}) {
    std::vector<float> one = totals(graph, x, features, 1);
    EXPECT_EQ(one, totals(graph, x, features, 5));
    for (size_t f = 0; f < 3; ++f) {
      double exact = 0;
      for (int64_t u : src)
        exact += double(x.data[size_t(u) * 3 + f]);
      EXPECT_NEAR(one[f], exact, 1e-3 * std::abs(exact));
    }
  }
}

Program piecesProgram() {
  Program program;
  program.values = {value(RowSet::Src, {}), value(RowSet::Dst, {}),
                    value(RowSet::Dst, {})};
  program.inputs = {0};
  program.outputs = {1, 2};
  program.steps = {kernelStep("sum_pieces", RowSet::Dst, {0}, {1, 2})};
  program.steps[0].kernel.phases = 1;
  program.steps[0].kernel.partialBytes = 64;
  program.code = readObject("kernels");
  return program;
}

/// Row 1 has 150 edges, row 2 more than a piece has, the others few.
TEST(Executor, RowsOfManyEdgesAreCutInPieces) {
  std::vector<int64_t> src, dst;
  auto connect = [&](int64_t to, int64_t edges) {
    for (int64_t e = 0; e < edges; ++e)
      src.push_back(e % 5), dst.push_back(to);
  };
  connect(0, 64), connect(1, 150), connect(2, 65), connect(4, 3);
  OwnedGraph<int32_t> graph(5, 5, src, dst);
  OwnedTensor<float> x({5}, signedValues(5));
  std::vector<float> exact(5, 0);
  for (size_t e = 0; e < src.size(); ++e)
    exact[size_t(dst[e])] += x.data[size_t(src[e])];
  auto executor = make(piecesProgram());
  forceSchedule({{}, {}, 127}); // 64
  for (int threads : {1, 4}) {
    Outcome outcome = run(*executor, {graph.view}, {x.view()}, threads);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
    EXPECT_EQ(outcome.outputs[0], exact);
    EXPECT_EQ(outcome.outputs[1], std::vector<float>({100, 4, 3, 100, 100}));
  }
  forceSchedule({});
  Outcome outcome = run(*executor, {graph.view}, {x.view()});
  EXPECT_EQ(outcome.outputs[1], std::vector<float>(5, 100));
}

/// Degrees are checked before a heavy row is computed.
TEST(Executor, WrongDegreeOfARowInPieces) {
  OwnedGraph<int32_t> graph(1, 2, std::vector<int64_t>(100, 0),
                            std::vector<int64_t>(100, 1));
  OwnedTensor<float> x({1}, signedValues(1));
  graph.view.maxInDegree = 80;
  forceSchedule({{}, {}, 64});
  Outcome outcome = run(*make(piecesProgram()), {graph.view}, {x.view()});
  forceSchedule({});
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_NE(outcome.status.error().text.find("stated as 80"),
            std::string::npos);
}

TEST(Executor, TuningIsForAShapeClassAndKeepsResults) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  auto executor = make(sumProgram());
  ScratchPool pool;
  SerialFor serial;
  PlainGemm gemm(pool);
  VectorOutputs outputs;
  std::vector<GraphArrays> graphs = {graph.view};
  std::vector<TensorView> inputs = {x.view()};
  Services services{serial, gemm, outputs, pool};
  Schedule chosen = executor->schedules(graphs).at(0);
  EXPECT_EQ(chosen.prefetch, 0);
  auto tuned = executor->tune(graphs, inputs, services);
  ASSERT_TRUE(tuned.ok());
  EXPECT_EQ(tuned.value().variant, 0u);
  ASSERT_EQ(tuned.value().choices.size(), 1u);
  EXPECT_EQ(executor->schedules(graphs).at(0),
            tuned.value().choices[0].over(chosen));
  EXPECT_EQ(executor->schedules(graphs).size(), 1u);
  EXPECT_EQ(run(*executor, graphs, inputs).outputs[0],
            neighborSums(x.data, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}, 3));
  forceSchedule({7, true, {}});
  EXPECT_EQ(executor->schedules(graphs).at(0).prefetch, 7);
  forceSchedule({});
  graphs[0].numEdges = 1000; // another class was not measured
  EXPECT_EQ(executor->schedules(graphs).at(0), chosen);
  EXPECT_FALSE(executor->tune(graphs, inputs, services).ok());
}

/// A source costs 1 in variant 0, a destination 2 in variant 1.
Program programOfTwoVariants() {
  Program program = sumProgram();
  program.costs = {{RowSet::Src, 0, 1}};
  program.variants = {sumProgram()};
  program.variants[0].costs = {{RowSet::Dst, 0, 2}};
  return program;
}

TEST(Executor, TheVariantThatCostsLeastRuns) {
  SmallGraph graph; // four sources, three destinations
  auto executor = make(programOfTwoVariants());
  std::vector<GraphArrays> graphs = {graph.view};
  EXPECT_EQ(executor->variantOn(graphs), 0u);
  graphs[0].numSrc = 6; // as expensive: the first of equals
  EXPECT_EQ(executor->variantOn(graphs), 0u);
  graphs[0].numSrc = 7;
  EXPECT_EQ(executor->variantOn(graphs), 1u);
  EXPECT_EQ(make(sumProgram())->variantOn(graphs), 0u);
}

TEST(Executor, EachVariantRunsWhenItIsForced) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  Program program = programOfTwoVariants();
  program.variants[0].steps[0].kernel.symbol = "missing";
  EXPECT_FALSE(Executor::create(program).ok());
  auto executor = make(programOfTwoVariants());
  for (size_t number = 0; number < kMaxVariants; ++number) {
    forceVariant(number);
    EXPECT_EQ(executor->variantOn({&graph.view, 1}), number == 1 ? 1u : 0u);
    Outcome outcome = run(*executor, {graph.view}, {x.view()});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
    EXPECT_EQ(outcome.outputs[0],
              neighborSums(x.data, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}, 3));
  }
  forceVariant({});
  EXPECT_EQ(executor->variantOn({&graph.view, 1}), 0u);
}

TEST(Executor, TheVariantThatWasMeasuredRunsUnlessOneIsForced) {
  SmallGraph graph;
  auto executor = make(programOfTwoVariants());
  std::vector<GraphArrays> graphs = {graph.view};
  EXPECT_EQ(executor->variantOn(graphs), 0u); // by cost
  ASSERT_TRUE(executor->keepTuned(graphs, {1, {{16, true, {}}}}).ok());
  EXPECT_EQ(executor->variantOn(graphs), 1u);
  EXPECT_EQ(executor->schedules(graphs).at(0).prefetch, 16);
  forceVariant(0);
  EXPECT_EQ(executor->variantOn(graphs), 0u);
  EXPECT_EQ(executor->schedules(graphs).at(0).prefetch, 0); // not variant 0's
  forceVariant({});
  graphs[0].numEdges = 1000; // another class
  EXPECT_EQ(executor->variantOn(graphs), 0u);
}

TEST(Executor, WaysThatAnotherProcessMeasured) {
  SmallGraph graph;
  auto executor = make(sumProgram());
  std::vector<GraphArrays> graphs = {graph.view};
  ASSERT_TRUE(executor->keepTuned(graphs, {0, {{128, true, 1 << 20}}}).ok());
  EXPECT_EQ(executor->schedules(graphs).at(0), (Schedule{128, true, 1 << 20}));
  auto problemOf = [&](const Way &way) {
    Status status = executor->keepTuned(graphs, way);
    return status.ok() ? "" : status.error().text;
  };
  EXPECT_EQ(problemOf({0, {{}, {}}}),
            "program has 1 kernels; got choices of 2");
  EXPECT_EQ(problemOf({1, {{}}}), "program has 1 variants; got number 1");
  EXPECT_EQ(problemOf({0, {{-1, {}, {}}}}),
            "kernel 0 cannot prefetch -1 edges ahead");
  EXPECT_EQ(problemOf({0, {{{}, {}, 0}}}),
            "kernel 0 cannot cut rows in pieces of 0 edges");
}

Program differenceProgram() {
  Program program;
  program.values = {value(RowSet::Node, {}), value(RowSet::Edge, {}),
                    value(RowSet::Node, {})};
  program.inputs = {0};
  program.outputs = {1, 2};
  program.steps = {kernelStep("edge_difference", RowSet::Node, {0}, {1, 2})};
  program.steps[0].kernel.scratchBytesPerDegree = 4;
  program.code = readObject("kernels");
  return program;
}

TEST(Executor, EdgeTablesAndScratchByDegree) {
  // A star: its center has 20,000 edges, all others one.
  std::vector<int64_t> src, dst;
  const int64_t leaves = 20000;
  for (int64_t leaf = 1; leaf <= leaves; ++leaf)
    src.push_back(leaf), dst.push_back(0);
  src.push_back(0), dst.push_back(7);
  OwnedGraph<int32_t> graph(leaves + 1, leaves + 1, {}, {});
  auto fillStar = [&] {
    auto &offsets = graph.arrays[0].data;
    offsets.assign(size_t(leaves) + 2, int32_t(leaves));
    offsets[0] = 0;
    for (size_t row = 8; row < offsets.size(); ++row)
      offsets[row] = int32_t(leaves) + 1;
    for (int k : {1, 2}) {
      graph.arrays[k] = OwnedTensor<int32_t>(
          {leaves + 1}, std::vector<int32_t>(size_t(leaves) + 1));
      for (int64_t e = 0; e <= leaves; ++e)
        graph.arrays[k].data[size_t(e)] = int32_t(k == 1 ? src[size_t(e)] : e);
    }
    graph.view.in = {graph.arrays[0].view(), graph.arrays[1].view(),
                     graph.arrays[2].view()};
    graph.view.numEdges = leaves + 1;
    graph.view.maxInDegree = leaves;
  };
  fillStar();
  OwnedTensor<float> x({leaves + 1}, signedValues(size_t(leaves) + 1));
  auto executor = make(differenceProgram());
  Outcome outcome = run(*executor, {graph.view}, {x.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  float sum = 0;
  for (size_t e = 0; e < src.size(); ++e) {
    float m = x.data[size_t(src[e])] - x.data[size_t(dst[e])];
    ASSERT_EQ(outcome.outputs[0][e], m);
    sum += dst[e] == 0 ? m : 0;
  }
  EXPECT_EQ(outcome.outputs[1][0], sum);

  graph.view.maxInDegree = leaves - 1;
  outcome = run(*executor, {graph.view}, {x.view()});
  ASSERT_FALSE(outcome.status.ok()) << "scratch would have overflowed";
  EXPECT_NE(outcome.status.error().text.find("in-degree, stated as 19999"),
            std::string::npos);
}

/// relu-free GCN: (sum of neighbors of x) @ w.T, with w sliced from a larger
/// parameter, then add a scalar.
TEST(Executor, GemmOfATransposedSlice) {
  SmallGraph graph;
  Program program = sumProgram();
  // 2: parameter [5, 3]; 3: its last three rows; 4: transposed; 5: product;
  // 6: scalar; 7: result.
  program.values.insert(program.values.end(),
                        {value(RowSet::None, {5, 3}),
                         value(RowSet::None, {3, 3}),
                         value(RowSet::None, {3, 3}), value(RowSet::Dst, {3}),
                         value(RowSet::None, {}), value(RowSet::Dst, {3})});
  program.inputs = {0, 2, 6};
  program.steps.insert(
      program.steps.end(),
      {viewStep(2, 3, 6, {3, 1}), viewStep(3, 4, 0, {1, 3}), gemmStep(1, 4, 5),
       kernelStep("add_scalar", RowSet::Dst, {5, 6}, {7}, false)});
  program.outputs = {7};
  OwnedTensor<float> x({4, 3}, signedValues(12)), w({5, 3}, signedValues(15)),
      s({}, {0.5f});
  Outcome outcome =
      run(*make(program), {graph.view}, {x.view(), w.view(), s.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  auto sums = neighborSums(x.data, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}, 3);
  for (size_t v = 0; v < 3; ++v)
    for (size_t o = 0; o < 3; ++o) {
      float expected = 0.5f;
      for (size_t k = 0; k < 3; ++k)
        expected += sums[v * 3 + k] * w.data[(o + 2) * 3 + k];
      EXPECT_FLOAT_EQ(outcome.outputs[0][v * 3 + o], expected);
    }
}

TEST(Executor, GemmFlattensLeadingAxesAndZeroDepth) {
  Program program;
  program.values = {value(RowSet::Src, {2, 3}),  value(RowSet::None, {3, 4}),
                    value(RowSet::Src, {2, 4}),  value(RowSet::Src, {2, 0}),
                    value(RowSet::None, {0, 4}), value(RowSet::Src, {2, 4}),
                    value(RowSet::Src, {2, 2}),  value(RowSet::None, {2, 1}),
                    value(RowSet::Src, {2, 1})};
  program.inputs = {0, 1, 3, 4, 7};
  // Columns 1.. of each of the two feature rows: no single row distance.
  program.steps = {gemmStep(0, 1, 2), gemmStep(3, 4, 5),
                   viewStep(0, 6, 1, {3, 1}), gemmStep(6, 7, 8)};
  program.outputs = {2, 5, 8};
  SmallGraph graph;
  OwnedTensor<float> x({4, 2, 3}, signedValues(24)),
      w({3, 4}, signedValues(12)), none({4, 2, 0}, {}), noRows({0, 4}, {}),
      v({2, 1}, {1.0f, -2.0f});
  Outcome outcome =
      run(*make(program), {graph.view},
          {x.view(), w.view(), none.view(), noRows.view(), v.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  for (size_t r = 0; r < 8; ++r) {
    for (size_t o = 0; o < 4; ++o) {
      float expected = 0;
      for (size_t k = 0; k < 3; ++k)
        expected += x.data[r * 3 + k] * w.data[k * 4 + o];
      EXPECT_FLOAT_EQ(outcome.outputs[0][r * 4 + o], expected);
      EXPECT_EQ(outcome.outputs[1][r * 4 + o], 0.0f);
    }
    EXPECT_EQ(outcome.outputs[2][r], x.data[r * 3 + 1] - 2 * x.data[r * 3 + 2]);
  }
}

TEST(Executor, PrefixIsCopiedOutAndChecked) {
  Program program;
  program.values = {value(RowSet::Src, {3}), value(RowSet::Dst, {3})};
  program.inputs = {0};
  program.outputs = {1};
  program.steps = {prefixStep(0, 1)};
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  Outcome outcome = run(*make(program), {graph.view}, {x.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  EXPECT_EQ(outcome.outputs[0],
            std::vector<float>(x.data.begin(), x.data.begin() + 9));

  OwnedGraph<int32_t> more(2, 3, {}, {});
  OwnedTensor<float> two({2, 3}, signedValues(6));
  EXPECT_NE(errorOf(program, {more.view}, {two.view()})
                .find("2 rows (source nodes of graph 0) stands for 3 rows"),
            std::string::npos);
}

TEST(Executor, StridedInputsAreCopied) {
  SmallGraph graph;
  OwnedTensor<float> wide({4, 8}, signedValues(32));
  std::vector<int64_t> shape = {4, 3}, strides = {8, 2};
  Outcome outcome = run(*make(sumProgram()), {graph.view},
                        {{wide.data.data() + 1, DType::F32, shape, strides}});
  ASSERT_TRUE(outcome.status.ok());
  std::vector<float> x;
  for (size_t r = 0; r < 4; ++r)
    for (size_t f = 0; f < 3; ++f)
      x.push_back(wide.data[r * 8 + f * 2 + 1]);
  EXPECT_EQ(outcome.outputs[0],
            neighborSums(x, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}, 3));
}

TEST(Executor, OutputsThatAreInputsOrRepeatedAreFresh) {
  Program program = sumProgram();
  program.outputs = {1, 0, 1};
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  Outcome outcome = run(*make(program), {graph.view}, {x.view()});
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.outputs[1], x.data);
  EXPECT_EQ(outcome.outputs[2], outcome.outputs[0]);
}

TEST(Executor, InputsThatAreNotReadMayBeAnything) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12)), any({7, 1}, signedValues(7));
  Program program = sumProgram();
  program.values.push_back(value(RowSet::Dst, {6}));
  program.inputs.push_back(2);
  auto executor = make(program);
  EXPECT_TRUE(executor->readsInput(0));
  EXPECT_FALSE(executor->readsInput(1));
  Outcome outcome = run(*executor, {graph.view}, {x.view(), any.view()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().text;
  EXPECT_EQ(outcome.outputs[0],
            neighborSums(x.data, {0, 1, 1, 3, 1}, {0, 0, 2, 2, 0}, 3));
}

TEST(Executor, WrongInputsAreNamed) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12)),
      narrow({4, 2}, signedValues(8)), few({3, 3}, signedValues(9));
  OwnedTensor<double> precise({4, 3}, std::vector<double>(12));
  Program p = sumProgram();
  EXPECT_EQ(errorOf(p, {graph.view}, {}), "program takes 1 inputs, got 0");
  EXPECT_EQ(errorOf(p, {}, {x.view()}), "program takes 1 graphs, got 0");
  EXPECT_EQ(errorOf(p, {graph.view}, {narrow.view()}),
            "input 0 ('h') is float32[4, 2], expected float32[4, 3] (source "
            "nodes of graph 0 first)");
  EXPECT_EQ(errorOf(p, {graph.view}, {few.view()}),
            "input 0 ('h') is float32[3, 3], expected float32[4, 3] (source "
            "nodes of graph 0 first)");
  EXPECT_EQ(errorOf(p, {graph.view}, {precise.view()}),
            "input 0 ('h') is float64[4, 3], expected float32[4, 3] (source "
            "nodes of graph 0 first)");
}

TEST(Executor, WrongGraphsAreNamed) {
  SmallGraph graph;
  OwnedTensor<float> x({4, 3}, signedValues(12));
  OwnedGraph<int64_t> wide(4, 3, {0}, {0});
  Program p = sumProgram();
  EXPECT_EQ(errorOf(p, {wide.view}, {x.view()}),
            "graph 0: in-offsets are int64[4], expected contiguous int32[4]");
  GraphArrays broken = graph.view;
  broken.in = {};
  EXPECT_NE(errorOf(p, {broken}, {x.view()}).find("in-offsets are"),
            std::string::npos);
  broken = graph.view;
  broken.numEdges = 4;
  EXPECT_NE(errorOf(p, {broken}, {x.view()}).find("in-neighbors are int32[5]"),
            std::string::npos);
  graph.arrays[0].data[1] = 50; // rises past the edges, then falls
  EXPECT_NE(errorOf(p, {graph.view}, {x.view()}).find("offsets decrease"),
            std::string::npos);
  broken = graph.view;
  broken.numSrc = -1;
  EXPECT_NE(errorOf(p, {broken}, {x.view()}).find("must not be negative"),
            std::string::npos);
  Program nodes = differenceProgram();
  OwnedTensor<float> one({3}, signedValues(3));
  EXPECT_NE(errorOf(nodes, {graph.view}, {one.view()})
                .find("expected one set of nodes"),
            std::string::npos);
}

TEST(Executor, UnneededGraphArraysMayBeEmpty) {
  SmallGraph graph;
  GraphArrays onlyIn = graph.view;
  onlyIn.out = {};
  OwnedTensor<float> x({4, 3}, signedValues(12));
  EXPECT_TRUE(run(*make(sumProgram()), {onlyIn}, {x.view()}).status.ok());
}

TEST(Executor, CreateRefusesWhatCannotRun) {
  Program absent = sumProgram();
  absent.steps[0].kernel.symbol = "absent";
  EXPECT_NE(Executor::create(absent).error().text.find("no kernel absent"),
            std::string::npos);
  Program invalid = sumProgram();
  invalid.outputs = {7};
  EXPECT_EQ(Executor::create(invalid).error().code, ErrorCode::Corrupt);
  Program noCode = sumProgram();
  noCode.code.clear();
  EXPECT_FALSE(Executor::create(noCode).ok());
  Program named = sumProgram();
  named.cpu = "some-model,sse4.2";
  EXPECT_TRUE(Executor::create(named).ok());
}

struct RandomGraph {
  std::vector<int32_t> offsets, neighbors, edgeIds;
  std::vector<int64_t> shapes[2] = {{}, {}};
  std::vector<int64_t> unit = {1};
  GraphArrays view;

  RandomGraph(int64_t nodes, int64_t edges) {
    std::mt19937 random(5);
    std::vector<int32_t> src, dst;
    for (int64_t e = 0; e < edges; ++e) {
      src.push_back(int32_t(random() % nodes));
      uint32_t small = 1 + random() % nodes;
      dst.push_back(int32_t(random() % small));
    }
    offsets.resize(size_t(nodes) + 1);
    neighbors.resize(size_t(edges)), edgeIds.resize(size_t(edges));
    SerialFor serial;
    ScratchPool pool;
    EXPECT_TRUE(buildCsr({dst.data(), src.data(), false, edges, nodes, nodes},
                         {offsets.data(), neighbors.data(), edgeIds.data()},
                         serial, pool)
                    .ok());
    shapes[0] = {nodes + 1}, shapes[1] = {edges};
    view.in = {{offsets.data(), DType::I32, shapes[0], unit},
               {neighbors.data(), DType::I32, shapes[1], unit},
               {edgeIds.data(), DType::I32, shapes[1], unit}};
    view.numSrc = view.numDst = nodes;
    view.numEdges = edges;
    for (int64_t row = 0; row < nodes; ++row)
      view.maxInDegree = std::max<int64_t>(
          view.maxInDegree, offsets[size_t(row) + 1] - offsets[size_t(row)]);
  }
};

TEST(Executor, SameBitsForAnyNumberOfThreads) {
  RandomGraph graph(20000, 150000);
  OwnedTensor<float> x({20000, 3}, std::vector<float>(60000));
  for (size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = std::sin(float(i)); // sums that round
  Program program = sumProgram();
  program.values.insert(program.values.end(),
                        {value(RowSet::None, {3, 3}), value(RowSet::Dst, {3})});
  program.inputs = {0, 2};
  program.steps.push_back(gemmStep(1, 2, 3));
  program.outputs = {1, 3};
  auto executor = make(program);
  OwnedTensor<float> w(
      {3, 3}, std::vector<float>(x.data.begin() + 50, x.data.begin() + 59));
  Outcome one = run(*executor, {graph.view}, {x.view(), w.view()}, 1);
  ASSERT_TRUE(one.status.ok());
  for (int threads : {2, 3, 8})
    EXPECT_EQ(
        run(*executor, {graph.view}, {x.view(), w.view()}, threads).outputs,
        one.outputs);
}

TEST(Executor, ThreadsShareOneExecutor) {
  RandomGraph graph(5000, 40000);
  OwnedTensor<float> x({5000}, signedValues(5000));
  auto executor = make(differenceProgram());
  auto expected = run(*executor, {graph.view}, {x.view()}).outputs;
  std::atomic<int> failures = 0;
  auto call = [&] {
    for (int i = 0; i < 20; ++i) {
      Outcome outcome = run(*executor, {graph.view}, {x.view()});
      failures += !outcome.status.ok() || outcome.outputs != expected;
    }
  };
  std::thread one(call), two(call);
  one.join(), two.join();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(holdsInChild([&] {
    return run(*executor, {graph.view}, {x.view()}).outputs == expected;
  }));
}

} // namespace
