#include "gossamer/runtime/CsrGraph.h"

#include "gossamer/runtime/ThreadPool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

using namespace gossamer;

namespace {

struct Coo {
  std::vector<int64_t> rows, cols;
  int64_t numRows, numCols;
};

struct Csr {
  std::vector<int32_t> offsets, neighbors, edgeIds;
  bool operator==(const Csr &) const = default;
};

Csr reference(const Coo &coo) {
  std::vector<int32_t> order(coo.rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return coo.rows[size_t(a)] < coo.rows[size_t(b)];
  });
  Csr csr{std::vector<int32_t>(size_t(coo.numRows) + 1, 0), {}, order};
  for (int64_t row : coo.rows)
    ++csr.offsets[size_t(row) + 1];
  std::partial_sum(csr.offsets.begin(), csr.offsets.end(), csr.offsets.begin());
  for (int32_t e : order)
    csr.neighbors.push_back(int32_t(coo.cols[size_t(e)]));
  return csr;
}

template <typename In>
Status build(const Coo &coo, ParallelFor &parallel, Csr &csr) {
  std::vector<In> rows(coo.rows.begin(), coo.rows.end());
  std::vector<In> cols(coo.cols.begin(), coo.cols.end());
  csr.offsets.assign(size_t(coo.numRows) + 1, -1);
  csr.neighbors.assign(rows.size(), -1);
  csr.edgeIds.assign(rows.size(), -1);
  ScratchPool pool;
  return buildCsr(
      {rows.data(), cols.data(), sizeof(In) == 8, int64_t(rows.size()),
       coo.numRows, coo.numCols},
      {csr.offsets.data(), csr.neighbors.data(), csr.edgeIds.data()}, parallel,
      pool);
}

void expectBuilds(const Coo &coo) {
  Csr expected = reference(coo);
  for (int threads : {1, 2, 7}) {
    ThreadPool parallel(threads);
    Csr narrow, wide;
    Status status = build<int32_t>(coo, parallel, narrow);
    ASSERT_TRUE(status.ok()) << status.error().text;
    ASSERT_TRUE(build<int64_t>(coo, parallel, wide).ok());
    EXPECT_EQ(narrow, expected);
    EXPECT_EQ(wide, expected);
  }
}

Coo randomCoo(int64_t numRows, int64_t numCols, int64_t edges, double power) {
  std::mt19937_64 random(uint64_t(edges + numRows));
  std::uniform_real_distribution<double> unit;
  Coo coo{{}, {}, numRows, numCols};
  for (int64_t e = 0; e < edges; ++e) {
    coo.rows.push_back(
        int64_t(std::pow(unit(random), power) * double(numRows)));
    coo.cols.push_back(int64_t(unit(random) * double(numCols)));
  }
  return coo;
}

TEST(CsrGraph, OddGraphs) {
  expectBuilds({{}, {}, 0, 0});
  expectBuilds({{}, {}, 5, 3});
  expectBuilds({{0}, {0}, 1, 1});
  expectBuilds({{2, 2, 0, 2}, {1, 1, 0, 1}, 4, 2}); // multi-edges
}

TEST(CsrGraph, RandomGraphs) {
  expectBuilds(randomCoo(1000, 70, 200000, 3.0));
  expectBuilds(randomCoo(70000, 70000, 100000, 1.0));
  expectBuilds(randomCoo(1, 50000, 100000, 1.0)); // a star
  expectBuilds(randomCoo(300000, 10, 40000, 1.0));
}

TEST(CsrGraph, NamesTheFirstBadEndpoint) {
  Coo coo = randomCoo(1000, 1000, 100000, 1.0);
  coo.cols[90000] = -4;
  coo.rows[95000] = 1000;
  ThreadPool parallel(3);
  Csr csr;
  Status status = build<int64_t>(coo, parallel, csr);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(status.error().text,
            "edge 90000 has column -4, but there are 1000 columns");
  coo.cols[90000] = 4;
  status = build<int32_t>(coo, parallel, csr);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text,
            "edge 95000 has row 1000, but there are 1000 rows");
}

TEST(CsrGraph, WideIndexStartsPastInt32) {
  const int64_t limit = INT32_MAX;
  EXPECT_FALSE(needsWideIndex(limit, limit, limit));
  EXPECT_TRUE(needsWideIndex(limit + 1, 1, 1));
  EXPECT_TRUE(needsWideIndex(1, 1, limit + 1));
}

TEST(CsrGraph, WideOutput) {
  // Column ids past int32 make every array int64; rows stay few.
  const int64_t far = int64_t(1) << 40;
  std::vector<int64_t> rows = {1, 0, 1}, cols = {far, 7, far + 1};
  std::vector<int64_t> offsets(3), neighbors(3), edgeIds(3);
  SerialFor serial;
  ScratchPool pool;
  ASSERT_TRUE(buildCsr({rows.data(), cols.data(), true, 3, 2, far + 2},
                       {offsets.data(), neighbors.data(), edgeIds.data()},
                       serial, pool)
                  .ok());
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(neighbors, (std::vector<int64_t>{7, far, far + 1}));
  EXPECT_EQ(edgeIds, (std::vector<int64_t>{1, 0, 2}));
}

} // namespace
