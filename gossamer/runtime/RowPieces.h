// Rows of very many edges, each computed in pieces by all threads.
//
// How a row is cut depends on the graph and the schedule, never on the threads,
// and the reductions of the pieces are combined in order.
#ifndef GOSSAMER_RUNTIME_ROWPIECES_H
#define GOSSAMER_RUNTIME_ROWPIECES_H

#include "gossamer/program/Abi.h"
#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/ParallelFor.h"
#include "gossamer/runtime/ScratchPool.h"

#include <cstdint>
#include <span>
#include <vector>

namespace gossamer {

/// The rows, ascending, that have more than `mostEdges` edges.
std::vector<int64_t> heavyRows(const void *offsets, bool wide, int64_t rows,
                               int64_t mostEdges);

/// A kernel whose rows can be computed in pieces.
struct PieceRun {
  const KernelStep &step;
  GsKernel kernel;
  const GsKernelCall &call; // for whole rows
  bool wideIndex;
  int64_t pieceEdges;
  int64_t scratchBytes; // for whole rows
};

/// Computes `rows` of `run`, one after the other.
Status runInPieces(const PieceRun &run, std::span<const int64_t> rows,
                   ParallelFor &parallel, ScratchPool &pool);

} // namespace gossamer

#endif
