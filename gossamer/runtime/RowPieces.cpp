#include "gossamer/runtime/RowPieces.h"

#include <algorithm>
#include <atomic>

namespace gossamer {

namespace {

int64_t offsetAt(const void *offsets, bool wide, int64_t row) {
  return wide ? static_cast<const int64_t *>(offsets)[row]
              : static_cast<const int32_t *>(offsets)[row];
}

/// One row; its scratch and the reductions of its pieces live as long.
class RowInPieces {
public:
  RowInPieces(const PieceRun &pieceRun, int64_t heavyRow, ParallelFor &threads,
              ScratchPool &scratchPool)
      : run(pieceRun), row(heavyRow), parallel(threads), pool(scratchPool),
        first(offsetAt(run.call.offsets, run.wideIndex, row)),
        last(offsetAt(run.call.offsets, run.wideIndex, row + 1)),
        pieces((last - first + run.pieceEdges - 1) / run.pieceEdges),
        rowScratch(pool.lease(size_t(run.scratchBytes))),
        partials(pool.lease(size_t(pieces * run.step.partialBytes))) {}

  Status compute() {
    bool enough = rowScratch && partials;
    for (int64_t phase = 0; enough && phase < run.step.phases; ++phase) {
      runPart(phase, kRowPart, {});
      enough = runEdges(phase);
      runPart(phase, kCombinePart,
              {0, INT64_MAX, static_cast<char *>(partials.data()), pieces});
    }
    if (enough)
      return {};
    return makeError(ErrorCode::OutOfMemory, "no memory for ", run.scratchBytes,
                     " bytes of scratch and the reductions of ", pieces,
                     " pieces of a row");
  }

private:
  struct Piece {
    int64_t firstEdge = 0, lastEdge = INT64_MAX;
    char *partial = nullptr;
    int64_t pieces = 0;
  };

  GsKernelCall callFor(int64_t phase, GsPart part, const Piece &piece) const {
    GsKernelCall call = run.call;
    call.stream = 0;
    call.firstEdge = piece.firstEdge;
    call.lastEdge = piece.lastEdge;
    call.firstPart = kPartsPerPhase * phase + part;
    call.endPart = call.firstPart + 1;
    call.rowScratch = rowScratch.data();
    call.partial = piece.partial;
    call.pieces = piece.pieces;
    call.partialStride = run.step.partialBytes;
    return call;
  }

  void runPart(int64_t phase, GsPart part, const Piece &piece) const {
    GsKernelCall call = callFor(phase, part, piece);
    run.kernel(&call, row, row + 1, rowScratch.data());
  }

  /// False without memory for scratch.
  bool runEdges(int64_t phase) const {
    std::atomic<bool> enough = true;
    parallel.forEach(pieces, [&](int64_t piece) {
      ScratchPool::Lease scratch = pool.lease(size_t(run.step.scratchBytes));
      if (!scratch)
        return enough.store(false, std::memory_order_relaxed);
      int64_t begin = first + piece * run.pieceEdges;
      GsKernelCall call =
          callFor(phase, kEdgePart,
                  {begin, std::min(begin + run.pieceEdges, last),
                   static_cast<char *>(partials.data()) +
                       piece * run.step.partialBytes});
      run.kernel(&call, row, row + 1, scratch.data());
    });
    return enough.load();
  }

  const PieceRun &run;
  const int64_t row;
  ParallelFor &parallel;
  ScratchPool &pool;
  const int64_t first, last, pieces;
  ScratchPool::Lease rowScratch, partials;
};

template <typename Index>
std::vector<int64_t> heavyRowsOf(const void *offsets, int64_t rows,
                                 int64_t mostEdges) {
  const Index *at = static_cast<const Index *>(offsets);
  std::vector<int64_t> heavy;
  for (int64_t row = 0; row < rows; ++row)
    if (int64_t(at[row + 1]) - int64_t(at[row]) > mostEdges)
      heavy.push_back(row);
  return heavy;
}

} // namespace

std::vector<int64_t> heavyRows(const void *offsets, bool wide, int64_t rows,
                               int64_t mostEdges) {
  return wide ? heavyRowsOf<int64_t>(offsets, rows, mostEdges)
              : heavyRowsOf<int32_t>(offsets, rows, mostEdges);
}

Status runInPieces(const PieceRun &run, std::span<const int64_t> rows,
                   ParallelFor &parallel, ScratchPool &pool) {
  for (int64_t row : rows)
    if (Status s = RowInPieces(run, row, parallel, pool).compute(); !s.ok())
      return s;
  return {};
}

} // namespace gossamer
