// The loop nests of a kernel, one function per kind of stage.
#ifndef GOSSAMER_LOWERING_EMITSTAGES_H
#define GOSSAMER_LOWERING_EMITSTAGES_H

#include "gossamer/lowering/Evaluate.h"
#include "gossamer/lowering/Lowering.h"

namespace gossamer::lowering {

/// Positions [first, last) of edges, and whether they are one block of a row
/// whose accumulators are in memory.
struct EdgeRange {
  mlir::Value first, last;
  bool isBlock = false;
};

/// Accumulators share the registers, and long expressions get fewer of them, so
/// that code stays linear in ops.
int64_t segmentsPerTile(const Expr &expr, const KernelOptions &options);

/// The rows that products of the rows of a block ask for: those that sweeps of
/// the block read, or of the next block, once a sweep of this one is behind.
/// Each of `products` products asks for a part.
struct NextSweep {
  bool isOfNextBlock = false;
  int64_t product = 0, products = 0;
};

class StageEmitter {
public:
  StageEmitter(mlir::ImplicitLocOpBuilder &builder, KernelFrame &kernelFrame,
               const Plan &kernelPlan, const KernelOptions &kernelOptions)
      : b(builder), frame(kernelFrame), plan(kernelPlan),
        options(kernelOptions) {}

  /// A stage that runs once per row, or once per call.
  void emitOnce(const Stage &stage);
  /// A stage of a sweep.
  void emitOverEdges(const Stage &stage, const EdgeRange &range);
  /// Whether a product of all rows of the block can ask for rows meanwhile: not
  /// when a row of the kernel is several rows of it.
  static bool mayAsk(const Stage &product);
  static int64_t weightBytes(const Stage &product);
  /// A product of all rows of the block. It asks for what `next` reads.
  void emitLinearOverRows(const Stage &stage, const NextSweep &next);
  /// Stores what the reductions of `stage` start from into their places.
  void emitInitialValues(const Stage &stage);

  /// Combines the reductions of `stage` over the pieces of a row.
  void emitCombinePieces(const Stage &stage);

  /// Nothing is in the run of `total`, and nothing waits.
  void emitEmpty(const Total &total);
  /// Adds the run, or what waits, to the table of `total`.
  void emitAddRun(const Total &total);
  void emitAddWaiting(const Total &total);

private:
  void emitMap(const Expr &expr, const Place &place, EdgeCursor *cursor);
  void emitContract(const Stage &stage, EdgeCursor *cursor);
  void emitContractTile(const Stage &stage, Tile outer, unsigned first,
                        unsigned last, EdgeCursor *cursor);
  void emitContractInner(const Stage &stage, Tile outer, unsigned first,
                         unsigned last, EdgeCursor *cursor);
  Carried emitContractLoops(const Stage &stage, Tile tile, unsigned dim,
                            unsigned last, mlir::ValueRange carried,
                            llvm::ArrayRef<Segment> segments,
                            EdgeCursor *cursor);
  int64_t lanesAlongAxis(const Expr &expr, unsigned first, unsigned last);
  mlir::Value finishMean(const Stage &stage, mlir::Value value);

  void emitReduce(const Stage &stage, const EdgeRange &range);
  void emitReduceTile(const Stage &stage, const EdgeRange &range,
                      const Tile &tile, int64_t lanes);
  Carried reduceBlock(const Stage &stage, Evaluator &values, const Tile &tile,
                      mlir::Value first, mlir::Value last);
  Carried identities(const Stage &stage, llvm::ArrayRef<Segment> segments);
  Carried combineAll(const Stage &stage, mlir::ValueRange left,
                     mlir::ValueRange right);
  void prefetchAhead(const Expr &expr, const Tile &tile,
                     const EdgeCursor &cursor);
  EdgesToCome edgesToCome(const NextSweep &sweep, mlir::Value row,
                          int64_t count);
  void prefetchToCome(const EdgesToCome &edges, mlir::Value part, int64_t size,
                      int64_t all);

  /// Several edges per vector, for few features.
  int64_t edgesPerVector(const Stage &stage) const;
  int64_t edgesPerDraw(const Stage &stage, int64_t features) const;
  void emitPackedMap(const Stage &stage, const EdgeRange &range, int64_t edges);
  void emitPackedReduce(const Stage &stage, const EdgeRange &range,
                        int64_t edges);
  Carried emitPackedBlock(const Stage &stage, Evaluator &values,
                          mlir::Value first, mlir::Value last, int64_t edges);
  void finishReduce(const Stage &stage, const EdgeRange &range,
                    llvm::ArrayRef<mlir::Value> totals, const Tile &tile,
                    llvm::ArrayRef<Segment> segments);
  mlir::Value loadSegment(const Place &place, mlir::Value row, const Tile &tile,
                          const LinearForm &form, Segment segment);
  mlir::Value startOfRow(mp::ReduceKind kind, mlir::Type type);

  void emitSumRows(const Stage &stage, EdgeCursor *cursor);
  void emitOuter(const Stage &stage, EdgeCursor *cursor);
  void emitAddQueue(const Total &total, mlir::Value number);
  void emitOuterProduct(const Total &total, mlir::Value number,
                        mlir::Value edges);
  void addOuterTile(const Total &total, mlir::Value number, mlir::Value edges,
                    const Tile &tile);

  void emitLinear(const Stage &stage, EdgeCursor *cursor);
  void emitLinearOverEdges(const Stage &stage, const EdgeRange &range);
  void emitProduct(const Stage &stage, llvm::ArrayRef<mlir::Value> inputs,
                   llvm::ArrayRef<mlir::Value> outputs);
  void forEachColumns(const Stage &stage,
                      llvm::function_ref<void(const Tile &)> body);
  void emitProductTile(const Stage &stage, const Tile &columns,
                       llvm::ArrayRef<mlir::Value> inputs,
                       llvm::ArrayRef<mlir::Value> outputs,
                       llvm::function_ref<void(mlir::Value)> betweenSteps = {});
  void prefetchDuring(const Stage &stage, const NextSweep &next,
                      const Tile &columns, mlir::Value k,
                      const EdgesToCome &edges);
  void storeProduct(const Stage &stage, mlir::Value value, mlir::Value row,
                    const Tile &tile, const Segment &columns);

  mlir::ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  const Plan &plan;
  const KernelOptions &options;
};

} // namespace gossamer::lowering

#endif
