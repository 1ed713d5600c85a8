// Kernels as the compiler would emit them, for tests of loader and executor.
// Compiled to plain objects, both position-independent and not.
#include "gossamer/program/Abi.h"

using gossamer::GsKernelCall;

namespace {

constexpr int64_t kWidth = 3;

template <typename Index>
void sumNeighbors(const GsKernelCall *call, int64_t begin, int64_t end) {
  auto *offsets = static_cast<const Index *>(call->offsets);
  auto *neighbors = static_cast<const Index *>(call->neighbors);
  auto *x = static_cast<const float *>(call->tables[0]);
  auto *y = static_cast<float *>(call->tables[1]);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t f = 0; f < kWidth; ++f) {
      float sum = 0;
      for (Index e = offsets[row]; e < offsets[row + 1]; ++e)
        sum += x[neighbors[e] * kWidth + f];
      y[row * kWidth + f] = sum;
    }
}

} // namespace

extern "C" {

/// y[v] = sum over edges (u, v) of x[u], three columns.
void sum_neighbors(const GsKernelCall *call, int64_t begin, int64_t end,
                   void *) {
  sumNeighbors<int32_t>(call, begin, end);
}

void sum_neighbors_wide(const GsKernelCall *call, int64_t begin, int64_t end,
                        void *) {
  sumNeighbors<int64_t>(call, begin, end);
}

/// y[v] = sum over edges (u, v) of x[u], one column, a row in pieces when the
/// call says so: what each part does is one number, and the second result is
/// the number of parts that were done for the row, in whole rows 100.
void sum_pieces(const GsKernelCall *call, int64_t begin, int64_t end, void *) {
  using namespace gossamer;
  auto *offsets = static_cast<const int32_t *>(call->offsets);
  auto *neighbors = static_cast<const int32_t *>(call->neighbors);
  auto *x = static_cast<const float *>(call->tables[0]);
  auto *y = static_cast<float *>(call->tables[1]);
  auto *parts = static_cast<float *>(call->tables[2]);
  auto sum = [&](int64_t first, int64_t last) {
    float total = 0;
    for (int64_t e = first; e < last; ++e)
      total += x[neighbors[e]];
    return total;
  };
  for (int64_t row = begin; row < end; ++row) {
    if (!call->partial && call->firstPart == 0 && call->endPart == INT64_MAX) {
      y[row] = sum(offsets[row], offsets[row + 1]);
      parts[row] = 100;
    } else if (call->firstPart == kRowPart) {
      parts[row] = 1;
    } else if (call->firstPart == kEdgePart) {
      *reinterpret_cast<float *>(call->partial) =
          sum(call->firstEdge, call->lastEdge);
    } else {
      y[row] = 0;
      for (int64_t piece = 0; piece < call->pieces; ++piece, ++parts[row])
        y[row] += *reinterpret_cast<float *>(call->partial +
                                             piece * call->partialStride);
    }
  }
}

/// Two totals: the number of edges, and the sum over them of x[u].
void add_totals(const GsKernelCall *call, int64_t begin, int64_t end, void *) {
  auto *offsets = static_cast<const int32_t *>(call->offsets);
  auto *neighbors = static_cast<const int32_t *>(call->neighbors);
  auto *x = static_cast<const float *>(call->tables[0]);
  auto *edges = static_cast<double *>(call->tables[1]);
  auto *sums = static_cast<float *>(call->tables[2]);
  for (int32_t e = offsets[begin]; e < offsets[end]; ++e) {
    *edges += 1;
    for (int64_t f = 0; f < kWidth; ++f)
      sums[f] += x[neighbors[e] * kWidth + f];
  }
}

/// m[e] = x[u] - x[v], by way of scratch, and y[v] = sum of m, one column.
void edge_difference(const GsKernelCall *call, int64_t begin, int64_t end,
                     void *scratch) {
  auto *offsets = static_cast<const int32_t *>(call->offsets);
  auto *neighbors = static_cast<const int32_t *>(call->neighbors);
  auto *edgeIds = static_cast<const int32_t *>(call->edgeIds);
  auto *x = static_cast<const float *>(call->tables[0]);
  auto *m = static_cast<float *>(call->tables[1]);
  auto *y = static_cast<float *>(call->tables[2]);
  auto *buffer = static_cast<float *>(scratch);
  for (int64_t row = begin; row < end; ++row) {
    int32_t first = offsets[row], degree = offsets[row + 1] - first;
    for (int32_t i = 0; i < degree; ++i)
      buffer[i] = x[neighbors[first + i]] - x[row];
    float sum = 0;
    for (int32_t i = 0; i < degree; ++i) {
      m[edgeIds[first + i]] = buffer[i];
      sum += buffer[i];
    }
    y[row] = sum;
  }
}

/// y = x + s, three columns; s has no rows.
void add_scalar(const GsKernelCall *call, int64_t begin, int64_t end, void *) {
  auto *x = static_cast<const float *>(call->tables[0]);
  auto *s = static_cast<const float *>(call->tables[1]);
  auto *y = static_cast<float *>(call->tables[2]);
  for (int64_t i = begin * kWidth; i < end * kWidth; ++i)
    y[i] = x[i] + *s;
}
}
