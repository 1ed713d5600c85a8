// Cutting the features of a stage into vectors.
//
// The innermost dims, as far as they fit into the registers of a tile, are
// unrolled into segments: vectors of a power-of-two number of lanes. The dims
// outside are loops, so code size does not depend on the number of features.
#ifndef GOSSAMER_LOWERING_TILES_H
#define GOSSAMER_LOWERING_TILES_H

#include "gossamer/lowering/Expr.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace gossamer::lowering {

/// `lanes` consecutive elements of a tile, in row-major order of its shape; the
/// last `idle` lanes are past its end.
struct Segment {
  int64_t start = 0;
  int64_t lanes = 1;
  int64_t idle = 0;
};

/// A box of the dims of an expression.
struct Tile {
  llvm::SmallVector<mlir::Value, 4> base; // first index of each dim; null is 0
  llvm::SmallVector<int64_t, 4> shape;    // extent along each dim
  llvm::SmallVector<int64_t, 4> steps;    // each base is a multiple of its step

  int64_t size() const;
  /// Cut into vectors of `lanes`, then of smaller powers of two, or of one that
  /// has idle lanes.
  llvm::SmallVector<Segment> segments(int64_t lanes,
                                      bool mayIdle = false) const;
  /// Where the lanes of `segment` are read, relative to the tile's base.
  llvm::SmallVector<int64_t> laneOffsets(const LinearForm &form,
                                         Segment segment) const;
  /// Where the base is, in elements: null when it is 0.
  mlir::Value baseOffset(mlir::ImplicitLocOpBuilder &b,
                         const LinearForm &form) const;
  /// A number that divides the base, whatever it is: 0 when it is 0.
  int64_t divisorOfBase(const LinearForm &form) const;
};

using Carried = llvm::SmallVector<mlir::Value>;

/// Emits the loop `for i = begin to end step step` over i64.
Carried
emitFor(mlir::ImplicitLocOpBuilder &b, mlir::Value begin, mlir::Value end,
        int64_t step, mlir::ValueRange init,
        llvm::function_ref<Carried(mlir::Value, mlir::ValueRange)> body);

mlir::Value constant(mlir::ImplicitLocOpBuilder &b, int64_t value);

/// Emits `body` for tiles of at most `capacity` elements that cover dims
/// [first, last); the other dims of a tile are those of `outer`. At most two
/// copies of the body come out.
Carried
forEachTile(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<int64_t> dims,
            unsigned first, unsigned last, int64_t capacity, int64_t lanes,
            Tile outer, Carried carried,
            llvm::function_ref<Carried(const Tile &, mlir::ValueRange)> body);

/// A tile of one element at the origin of `dims`.
Tile originTile(size_t dims);

} // namespace gossamer::lowering

#endif
