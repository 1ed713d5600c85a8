// Compressed rows from an edge list.
//
// The edges of a row stand in the order of their ids (the sort is stable), so
// the result depends on the edge list alone, not on the threads.
#ifndef GOSSAMER_RUNTIME_CSRGRAPH_H
#define GOSSAMER_RUNTIME_CSRGRAPH_H

#include "gossamer/program/Result.h"
#include "gossamer/runtime/ParallelFor.h"
#include "gossamer/runtime/ScratchPool.h"

#include <cstdint>

namespace gossamer {

/// Edge i joins row rows[i] and column cols[i].
struct EdgeList {
  const void *rows = nullptr;
  const void *cols = nullptr;
  bool wide = false; // int64 ids, else int32
  int64_t edges = 0;
  int64_t numRows = 0;
  int64_t numCols = 0;
};

/// Where to write; int64 when needsWideIndex, else int32.
struct CsrArrays {
  void *offsets = nullptr;   // numRows + 1
  void *neighbors = nullptr; // edges: columns, row by row
  void *edgeIds = nullptr;   // edges: positions in the edge list
};

/// Whether some node, edge or offset does not fit in int32.
bool needsWideIndex(int64_t edges, int64_t numRows, int64_t numCols);

/// Fails, with the first position and the value, when an endpoint is out of
/// range; the arrays then hold nothing of use.
Status buildCsr(const EdgeList &list, const CsrArrays &out,
                ParallelFor &parallel, ScratchPool &pool);

/// Most edges of any row; 0 without rows.
int64_t maxDegree(const void *offsets, bool wide, int64_t numRows);

} // namespace gossamer

#endif
