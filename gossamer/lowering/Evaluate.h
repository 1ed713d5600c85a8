// Computes the values of an expression, one segment at a time.
#ifndef GOSSAMER_LOWERING_EVALUATE_H
#define GOSSAMER_LOWERING_EVALUATE_H

#include "gossamer/lowering/Draws.h"
#include "gossamer/lowering/KernelFrame.h"
#include "gossamer/lowering/Tiles.h"

namespace gossamer::lowering {

/// The values of one tile. Values that are the same for all edges are computed
/// where the evaluator is made, before the loop over edges; the others anew for
/// each edge.
class Evaluator {
public:
  Evaluator(mlir::ImplicitLocOpBuilder &builder, KernelFrame &kernelFrame,
            const Expr &expression, const Tile &box,
            llvm::ArrayRef<Segment> vectors);

  /// One evaluator computes `edges` consecutive edges at once, as one vector of
  /// edges * features lanes, edge by edge. `last` is the last edge that may be
  /// read: lanes of later ones hold its values.
  Evaluator(mlir::ImplicitLocOpBuilder &builder, KernelFrame &kernelFrame,
            const Expr &expression, int64_t edgesPerVector, mlir::Value last);

  /// The results for each segment: result r of segment s is at
  /// s * results + r. `cursor` is null outside of edge loops.
  Carried at(EdgeCursor *cursor);

private:
  mlir::Value evaluate(unsigned node, unsigned segment, EdgeCursor *cursor);
  mlir::Value leaf(unsigned node, unsigned segment, EdgeCursor *cursor);
  mlir::Value position(const ExprNode &node, Segment segment);
  mlir::Value leafOfEdges(unsigned node, EdgeCursor *cursor);
  EdgeCursor edgeAfter(const EdgeCursor &cursor, int64_t count);
  void draw(unsigned node, EdgeCursor *cursor);
  llvm::SmallVector<mlir::Value> rowsToDraw(mp::UniformOp uniform,
                                            EdgeCursor *cursor);
  mlir::Value compute(const ExprNode &node,
                      llvm::ArrayRef<mlir::Value> operands, int64_t lanes);
  mlir::Value rowPointer(unsigned node, EdgeCursor *cursor);
  mlir::Value loadLanes(unsigned node, mlir::Value row,
                        llvm::ArrayRef<int64_t> offsets);
  void findUniform();
  void computeInvariants();

  mlir::ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  const Expr &expr;
  Tile tile;
  llvm::SmallVector<Segment> segments;
  int64_t edges = 1;
  mlir::Value lastEdge;

  llvm::SmallVector<bool> uniform; // equal in all lanes: kept as a scalar
  /// values[segment][node], null until computed; what depends on the edge is
  /// dropped for each edge. Uniform values are at segment 0.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> values;
  llvm::SmallVector<mlir::Value> rows;   // first byte of the row of each leaf
  llvm::DenseMap<unsigned, Draws> draws; // of each Random
};

/// Stores `value`, the lanes of `segment`, where `target` says.
void storeSegment(mlir::ImplicitLocOpBuilder &b, KernelFrame &frame,
                  mlir::Value value, mlir::Value row, const Tile &tile,
                  const LinearForm &target, Segment segment);

/// The same for a value of `place` that is complete, and goes to its row or to
/// that of a piece. Results that nothing here reads go past the caches when the
/// call wants it.
void storeResult(mlir::ImplicitLocOpBuilder &b, KernelFrame &frame,
                 mlir::Value value, const Place &place, mlir::Value row,
                 const Tile &tile, const LinearForm &target, Segment segment);

/// Lanes of a full vector for the widest type that `expr` computes with.
int64_t lanesFor(const Expr &expr, int64_t vectorBytes);

mlir::Value broadcastTo(mlir::ImplicitLocOpBuilder &b, mlir::Value value,
                        int64_t lanes);

} // namespace gossamer::lowering

#endif
