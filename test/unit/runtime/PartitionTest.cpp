#include "gossamer/runtime/Partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace gossamer;

namespace {

/// Chunks cover [0, rows) in order; gives the work of the heaviest.
int64_t heaviest(const Partition &partition, int64_t rows,
                 const std::vector<int64_t> &offsets) {
  EXPECT_EQ(partition.chunks() ? partition.border(0) : 0, 0);
  EXPECT_EQ(partition.border(partition.chunks()), rows);
  int64_t most = 0;
  for (int64_t c = 0; c < partition.chunks(); ++c) {
    int64_t begin = partition.border(c), end = partition.border(c + 1);
    EXPECT_LE(begin, end);
    int64_t edges =
        offsets.empty() ? 0 : offsets[size_t(end)] - offsets[size_t(begin)];
    most = std::max(most, end - begin + edges);
  }
  return most;
}

TEST(Partition, RowsOfEqualCost) {
  for (int64_t rows : {0, 1, 4, 4096, 4097, 1000000, 100000000}) {
    Partition partition = Partition::ofRows(rows);
    EXPECT_LE(partition.chunks(), 512);
    EXPECT_EQ(partition.chunks() == 0, rows == 0);
    int64_t most = heaviest(partition, rows, {});
    if (rows > 0) {
      EXPECT_LE(most, rows / partition.chunks() + 1);
    }
  }
}

TEST(Partition, FewRowsOfMuchWorkAreManyChunks) {
  Partition partition = Partition::ofRows(1000, 4096);
  EXPECT_EQ(partition.chunks(), 512);
  EXPECT_LE(heaviest(partition, 1000, {}), 2);
  std::vector<int32_t> offsets = {0, 0, 1000, 1000};
  Partition edges = Partition::ofEdges(offsets.data(), false, 3, 1000);
  EXPECT_EQ(edges.chunks(), 2);
  EXPECT_EQ(edges.border(1), 2);
}

TEST(Partition, SmallGraphsAreOneChunk) {
  std::vector<int32_t> offsets = {0, 2, 2, 5, 9};
  Partition partition = Partition::ofEdges(offsets.data(), false, 4);
  EXPECT_EQ(partition.chunks(), 1);
}

TEST(Partition, PowerLawIsBalancedUpToOneRow) {
  std::mt19937 random(7);
  const int64_t rows = 50000;
  std::vector<int64_t> offsets = {0};
  int64_t maxDegree = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t degree = int64_t(3.0 / (1e-4 + random() / 4294967296.0)) % 20000;
    maxDegree = std::max(maxDegree, degree);
    offsets.push_back(offsets.back() + degree);
  }
  Partition partition = Partition::ofEdges(offsets.data(), true, rows);
  EXPECT_GT(partition.chunks(), 64);
  int64_t share = (offsets.back() + rows) / partition.chunks();
  EXPECT_LE(heaviest(partition, rows, offsets), share + maxDegree + 2);

  std::vector<int32_t> narrow(offsets.begin(), offsets.end());
  Partition same = Partition::ofEdges(narrow.data(), false, rows);
  ASSERT_EQ(same.chunks(), partition.chunks());
  for (int64_t c = 0; c <= same.chunks(); ++c)
    EXPECT_EQ(same.border(c), partition.border(c));
}

TEST(Partition, StarKeepsItsHeavyRowWhole) {
  // Row 1 of three has all 100,000 edges.
  std::vector<int32_t> offsets = {0, 0, 100000, 100000};
  Partition partition = Partition::ofEdges(offsets.data(), false, 3);
  int chunksWithRow = 0;
  for (int64_t c = 0; c < partition.chunks(); ++c)
    chunksWithRow += partition.border(c) <= 1 && 1 < partition.border(c + 1);
  EXPECT_EQ(chunksWithRow, 1);
  EXPECT_EQ(partition.border(partition.chunks()), 3);
}

TEST(Partition, RowsWithoutEdges) {
  std::vector<int32_t> offsets(10001, 0);
  Partition partition = Partition::ofEdges(offsets.data(), false, 10000);
  EXPECT_EQ(partition.chunks(), 5);
  EXPECT_EQ(partition.border(3), 6000);
  EXPECT_EQ(partition.border(5), 10000);
}

} // namespace
