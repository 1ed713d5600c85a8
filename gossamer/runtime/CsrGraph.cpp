// A counting sort in parts: each part of the edge list counts its rows; a scan
// over rows, then parts, turns counts into first positions; each part then
// places its edges. Stable, because parts are in list order.

#include "gossamer/runtime/CsrGraph.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace gossamer {

namespace {

constexpr int64_t kEdgesPerPart = 16384;
constexpr int64_t kRowsPerBlock = 16384;

/// Counting needs one table of rows per part; more than this many entries per
/// edge cost more than they save.
constexpr int64_t kCountersPerEdge = 2;

int64_t partsFor(const EdgeList &list, int threads) {
  int64_t bySize = list.edges / kEdgesPerPart;
  int64_t byTables =
      kCountersPerEdge * list.edges / std::max<int64_t>(list.numRows, 1);
  return std::clamp<int64_t>(std::min(bySize, byTables), 1, threads);
}

template <typename In, typename Out> class CsrBuilder {
public:
  CsrBuilder(const EdgeList &edges, const CsrArrays &out, ParallelFor &threads)
      : rows(static_cast<const In *>(edges.rows)),
        cols(static_cast<const In *>(edges.cols)), list(edges),
        offsets(static_cast<Out *>(out.offsets)),
        neighbors(static_cast<Out *>(out.neighbors)),
        edgeIds(static_cast<Out *>(out.edgeIds)), parallel(threads),
        parts(partsFor(edges, threads.threads())) {}

  Status build(ScratchPool &pool) {
    ScratchPool::Lease tables =
        pool.lease(size_t(parts) * size_t(list.numRows) * sizeof(Out));
    if (!tables)
      return makeError(ErrorCode::OutOfMemory, "no memory to sort ", list.edges,
                       " edges into ", list.numRows, " rows");
    counters = static_cast<Out *>(tables.data());
    std::vector<int64_t> bad(size_t(parts), list.edges);
    parallel.forEach(parts, [&](int64_t part) { bad[part] = count(part); });
    int64_t firstBad = *std::min_element(bad.begin(), bad.end());
    if (firstBad < list.edges)
      return outOfRange(firstBad);
    scan();
    parallel.forEach(parts, [&](int64_t part) { place(part); });
    return {};
  }

private:
  int64_t begin(int64_t part) const { return list.edges * part / parts; }

  Out *countersOf(int64_t part) const { return counters + part * list.numRows; }

  bool inRange(int64_t edge) const {
    // As unsigned numbers negative ids are too large.
    return uint64_t(rows[edge]) < uint64_t(list.numRows) &&
           uint64_t(cols[edge]) < uint64_t(list.numCols);
  }

  /// Counts the rows of a part; the first edge out of range, or list.edges.
  int64_t count(int64_t part) {
    Out *counter = countersOf(part);
    std::fill_n(counter, list.numRows, Out(0));
    for (int64_t e = begin(part), end = begin(part + 1); e < end; ++e) {
      if (!inRange(e))
        return e;
      ++counter[rows[e]];
    }
    return list.edges;
  }

  Status outOfRange(int64_t edge) const {
    bool isRow = uint64_t(rows[edge]) >= uint64_t(list.numRows);
    int64_t id = isRow ? rows[edge] : cols[edge];
    return makeError(ErrorCode::InvalidArgument, "edge ", edge, " has ",
                     isRow ? "row " : "column ", id, ", but there are ",
                     isRow ? list.numRows : list.numCols,
                     isRow ? " rows" : " columns");
  }

  /// Turns counts into first positions, and fills the offsets.
  void scan() {
    int64_t blocks = (list.numRows + kRowsPerBlock - 1) / kRowsPerBlock;
    std::vector<int64_t> first(size_t(blocks) + 1, 0);
    parallel.forEach(blocks, [&](int64_t block) {
      int64_t sum = 0;
      for (int64_t part = 0; part < parts; ++part)
        for (int64_t r = rowBegin(block); r < rowBegin(block + 1); ++r)
          sum += countersOf(part)[r];
      first[size_t(block) + 1] = sum;
    });
    for (int64_t block = 0; block < blocks; ++block)
      first[size_t(block) + 1] += first[size_t(block)];
    parallel.forEach(blocks, [&](int64_t block) {
      int64_t at = first[size_t(block)];
      for (int64_t r = rowBegin(block); r < rowBegin(block + 1); ++r) {
        offsets[r] = Out(at);
        for (int64_t part = 0; part < parts; ++part) {
          int64_t inPart = countersOf(part)[r];
          countersOf(part)[r] = Out(at);
          at += inPart;
        }
      }
    });
    offsets[list.numRows] = Out(list.edges);
  }

  int64_t rowBegin(int64_t block) const {
    return std::min(block * kRowsPerBlock, list.numRows);
  }

  void place(int64_t part) {
    Out *next = countersOf(part);
    for (int64_t e = begin(part), end = begin(part + 1); e < end; ++e) {
      Out at = next[rows[e]]++;
      neighbors[at] = Out(cols[e]);
      edgeIds[at] = Out(e);
    }
  }

  const In *rows;
  const In *cols;
  const EdgeList &list;
  Out *offsets;
  Out *neighbors;
  Out *edgeIds;
  ParallelFor &parallel;
  const int64_t parts;
  Out *counters = nullptr;
};

} // namespace

bool needsWideIndex(int64_t edges, int64_t numRows, int64_t numCols) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  return edges > kMax || numRows > kMax || numCols > kMax;
}

Status buildCsr(const EdgeList &list, const CsrArrays &out,
                ParallelFor &parallel, ScratchPool &pool) {
  if (list.edges < 0 || list.numRows < 0 || list.numCols < 0)
    return makeError(ErrorCode::InvalidArgument, "a graph of ", list.numRows,
                     " by ", list.numCols, " nodes and ", list.edges,
                     " edges: sizes must not be negative");
  bool wideOut = needsWideIndex(list.edges, list.numRows, list.numCols);
  if (list.wide && wideOut)
    return CsrBuilder<int64_t, int64_t>(list, out, parallel).build(pool);
  if (list.wide)
    return CsrBuilder<int64_t, int32_t>(list, out, parallel).build(pool);
  if (wideOut)
    return CsrBuilder<int32_t, int64_t>(list, out, parallel).build(pool);
  return CsrBuilder<int32_t, int32_t>(list, out, parallel).build(pool);
}

template <typename Index>
static int64_t largestGap(const Index *offsets, int64_t numRows) {
  Index largest = 0;
  for (int64_t row = 0; row < numRows; ++row)
    largest = std::max(largest, Index(offsets[row + 1] - offsets[row]));
  return largest;
}

int64_t maxDegree(const void *offsets, bool wide, int64_t numRows) {
  return wide ? largestGap(static_cast<const int64_t *>(offsets), numRows)
              : largestGap(static_cast<const int32_t *>(offsets), numRows);
}

} // namespace gossamer
