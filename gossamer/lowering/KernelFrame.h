// The generated function's view of a call: what program/Abi.h passes, and where
// the rows of every table and buffer are.
#ifndef GOSSAMER_LOWERING_KERNELFRAME_H
#define GOSSAMER_LOWERING_KERNELFRAME_H

#include "gossamer/lowering/Lowering.h"
#include "gossamer/lowering/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace gossamer::lowering {

/// One edge of the current row. Node and edge ids are loaded when first asked
/// for, right after the position.
struct EdgeCursor {
  mlir::Value position;
  mlir::Value neighbor;
  mlir::Value edgeId;
};

/// Positions of edges of later rows, `count` from `first` on.
struct EdgesToCome {
  mlir::Value first, count;
};

class KernelFrame {
public:
  /// Emits the loads of the call's fields at the start of `function`.
  KernelFrame(mlir::ImplicitLocOpBuilder &b, mlir::func::FuncOp function,
              mp::KernelOp kernel, const Plan &plan,
              const KernelOptions &options);

  /// The rows [first, last) go together from now on.
  void enterBlock(mlir::Value first, mlir::Value last);

  /// Emits the loads of the row's edge range.
  void enterRow(mlir::Value row);

  /// First byte of the row of `leaf`: a value with a place, or a gather or
  /// lookup of one. `cursor` is null outside of edge loops.
  mlir::Value rowOf(mlir::Value leaf, EdgeCursor *cursor);
  mlir::Value rowOf(const Place &place, EdgeCursor *cursor);

  /// Where the edges of this call are reduced to: the row of `place`, or in
  /// calls for a piece of a row the place of its part.
  mlir::Value reductionRow(const Place &place);
  /// The same reduction of piece `piece`, when pieces are combined.
  mlir::Value reductionOfPiece(const Place &place, mlir::Value piece);
  /// Whether this call does a part of the row.
  mlir::Value doesPart(int64_t part);

  /// The number that `by` gives the row of the kernel, or the edge: from 0 to
  /// its count - 1.
  mlir::Value numberOf(const Numbering &by, EdgeCursor *cursor);

  /// The row of that number of the table at `base`, rows of `width` elements.
  mlir::Value rowNumbered(mlir::Value base, const Numbering &by,
                          mlir::Type element, int64_t width,
                          EdgeCursor *cursor);

  /// The place of a leaf, and whether it is read at the other end of the edge.
  const Place &placeOf(mlir::Value leaf, bool *atNeighbor = nullptr) const;

  /// The id of the edge that `cursor` is at.
  mlir::Value edgeIdOf(EdgeCursor &cursor);

  /// Whether each edge reads its own row of `leaf`'s table: at the other end,
  /// or at its id.
  bool isGathered(mlir::Value leaf) const;

  /// The row that `leaf`, which is gathered, has some edges after `cursor`.
  mlir::Value rowAhead(mlir::Value leaf, const EdgeCursor &cursor);

  /// The row that `leaf`, which is gathered, has for the edge at `position`.
  mlir::Value rowAtPosition(mlir::Value leaf, mlir::Value position);

  /// The edges of the rows [first, first + count) of this call, at most `most`
  /// of them; none where all rows are near enough.
  EdgesToCome edgesToCome(mlir::Value first, int64_t count, int64_t most);

  /// `pointer` + `index` elements.
  mlir::Value element(mlir::Value pointer, mlir::Type type, mlir::Value dynamic,
                      int64_t fixed);
  mlir::Value load(mlir::Value pointer, mlir::Type element, int64_t lanes);
  void store(mlir::Value value, mlir::Value pointer);
  /// Past the caches: a full vector, aligned to its size.
  void storeStreaming(mlir::Value value, mlir::Value pointer);

  /// Bytes that an edge reads of rows that lie anywhere: at its other end, or
  /// at its id.
  int64_t gatheredBytes() const;
  /// Leaves with these rows, one for each table and end.
  llvm::SmallVector<mlir::Value> gatheredLeaves() const;

  mlir::Value begin, end;          // rows of this call
  mlir::Value row;                 // null when the kernel has no rows
  mlir::Value firstRow, lastRow;   // rows [first, last) of the block
  mlir::Value firstEdge, lastEdge; // positions [first, last) to go over
  mlir::Value degree;              // of the row
  mlir::Value pieces;              // to combine
  mlir::Value stream;              // whether results go past the caches
  mlir::Value blockBegin;          // position of the first edge of the block
  mlir::Value waiting;       // how many edges wait in the buffers of a total
  const int64_t vectorBytes; // of a full vector register

private:
  mlir::Value field(unsigned offset, mlir::Type type);
  mlir::Value index(mlir::Value array, mlir::Value position);
  mlir::Value indexAt(mlir::Value array, const EdgeCursor &cursor);
  mlir::Value rowAt(mlir::Value base, mlir::Value row, const Place &place);

  mlir::ImplicitLocOpBuilder &b;
  mp::KernelOp kernel;
  const Plan &plan;
  mlir::Type indexType;
  void loadPieceFields();

  mlir::Value call, scratch;
  mlir::Value rowBegin;   // position of the first edge of the row
  mlir::Value rowScratch; // what calls for one row share
  mlir::Value pieceFirst, pieceLast, firstPart, endPart, partial, hasPartial,
      partialStride;
  mlir::Value offsets, neighbors, edgeIds, maxDegree, prefetch, lastPosition;
  llvm::SmallVector<mlir::Value> tables;
};

} // namespace gossamer::lowering

#endif
