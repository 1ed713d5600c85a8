// Reductions along one feature axis: dot products, norms, softmax over heads.
//
// The dims of the expression are the axes before, the axis, and the axes after
// (or some dim before it, where that makes better vectors).
// Without axes after it, vectors run along the axis and are combined lane by
// lane at the end; otherwise vectors run along the axes after it.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

/// Vectors along the axis that one iteration reads.
static constexpr int64_t kSegmentsPerStep = 4;

Value StageEmitter::finishMean(const Stage &stage, Value value) {
  if (stage.kinds.front() != mp::ReduceKind::Mean)
    return value;
  int64_t count = 1;
  for (auto [size, axis] : llvm::zip(stage.expr.dims, stage.expr.axes))
    if (axis == stage.axis)
      count *= size;
  Type type = value.getType();
  auto number = b.getFloatAttr(getElementTypeOrSelf(type), count);
  return arith::DivFOp::create(b, value, splat(b, type, number));
}

/// Vectors along the axis, dims [first, last).
void StageEmitter::emitContractTile(const Stage &stage, Tile outer,
                                    unsigned first, unsigned last,
                                    EdgeCursor *cursor) {
  const Expr &expr = stage.expr;
  mp::ReduceKind kind = stage.kinds.front();
  int64_t lanes = lanesFor(expr, options.vectorBytes);
  Carried total = forEachTile(
      b, expr.dims, first, last, lanes * kSegmentsPerStep, lanes, outer,
      {identity(b, kind, stage.places.front().element)},
      [&](const Tile &tile, ValueRange carried) {
        SmallVector<Segment> segments = tile.segments(lanes);
        if (cursor)
          prefetchAhead(expr, tile, *cursor);
        Evaluator evaluator(b, frame, expr, tile, segments);
        Carried values = evaluator.at(cursor);
        // Whole vectors first, then the rest.
        Value sum = values.front();
        Value scalar = carried.front();
        for (Value value : ArrayRef(values).drop_front()) {
          if (value.getType() == sum.getType()) {
            sum = combine(b, kind, sum, value);
            continue;
          }
          scalar = combine(b, kind, scalar, combineLanes(b, kind, value));
        }
        return Carried{combine(b, kind, scalar, combineLanes(b, kind, sum))};
      });
  storeSegment(b, frame, finishMean(stage, total.front()),
               frame.rowOf(stage.places.front(), cursor), outer,
               expr.targets.front(), {0, 1});
}

/// The loops over the axis, dims [dim, last), of a tile of the axes after it.
Carried StageEmitter::emitContractLoops(const Stage &stage, Tile tile,
                                        unsigned dim, unsigned last,
                                        ValueRange carried,
                                        ArrayRef<Segment> segments,
                                        EdgeCursor *cursor) {
  if (dim == last) {
    if (cursor)
      prefetchAhead(stage.expr, tile, *cursor);
    Evaluator evaluator(b, frame, stage.expr, tile, segments);
    return combineAll(stage, carried, evaluator.at(cursor));
  }
  return emitFor(b, constant(b, 0), constant(b, stage.expr.dims[dim]), 1,
                 carried, [&](Value index, ValueRange inner) {
                   Tile next = tile;
                   next.base[dim] = index;
                   return emitContractLoops(stage, std::move(next), dim + 1,
                                            last, inner, segments, cursor);
                 });
}

/// Vectors along the axes after the axis, dims [last, ...).
void StageEmitter::emitContractInner(const Stage &stage, Tile outer,
                                     unsigned first, unsigned last,
                                     EdgeCursor *cursor) {
  const Expr &expr = stage.expr;
  int64_t lanes = lanesFor(expr, options.vectorBytes);
  forEachTile(b, expr.dims, last, expr.dims.size(), lanes * kSegmentsPerStep,
              lanes, outer, {}, [&](const Tile &tile, ValueRange) {
                SmallVector<Segment> segments = tile.segments(lanes);
                Carried sums = emitContractLoops(stage, tile, first, last,
                                                 identities(stage, segments),
                                                 segments, cursor);
                for (auto [segment, sum] : llvm::zip(segments, sums))
                  storeSegment(b, frame, finishMean(stage, sum),
                               frame.rowOf(stage.places.front(), cursor), tile,
                               expr.targets.front(), segment);
                return Carried();
              });
}

void StageEmitter::emitContract(const Stage &stage, EdgeCursor *cursor) {
  const Expr &expr = stage.expr;
  unsigned first = llvm::find(expr.axes, stage.axis) - expr.axes.begin();
  unsigned last = first + llvm::count(expr.axes, stage.axis);
  int64_t inner = 1;
  for (int64_t size : ArrayRef(expr.dims).drop_front(last))
    inner *= size;
  // One element of the axes before the axis at a time.
  forEachTile(b, expr.dims, 0, first, /*capacity=*/1, /*lanes=*/1,
              originTile(expr.dims.size()), {},
              [&](const Tile &tile, ValueRange) {
                if (inner == 1)
                  emitContractTile(stage, tile, first, last, cursor);
                else
                  emitContractInner(stage, tile, first, last, cursor);
                return Carried();
              });
}
