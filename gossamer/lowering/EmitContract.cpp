// Reductions along one feature axis: dot products, norms, softmax over heads.
//
// The dims of the expression are the axes before, the axis, and the axes after
// (or some dim before it, where that makes better vectors).
// Without axes after it, vectors run along the axis and are combined lane by
// lane at the end, those of several results together; otherwise vectors run
// along the axes after it.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

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

/// `value` in the first lanes of `type`, what combining starts from in others.
static Value widen(ImplicitLocOpBuilder &b, mp::ReduceKind kind, Value value,
                   Type type) {
  if (value.getType() == type)
    return value;
  Value idle = identity(b, kind, type);
  if (!isa<VectorType>(value.getType()))
    return vector::InsertOp::create(b, value, idle, 0);
  return vector::InsertStridedSliceOp::create(
      b, value, idle, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{1});
}

/// Vectors along the axis, dims [first, last): one sum for each element of
/// `outer`.
void StageEmitter::emitContractTile(const Stage &stage, Tile outer,
                                    unsigned first, unsigned last,
                                    EdgeCursor *cursor) {
  const Expr &expr = stage.expr;
  mp::ReduceKind kind = stage.kinds.front();
  int64_t lanes = lanesAlongAxis(expr, first, last);
  int64_t outputs = outer.size();
  Type type = vectorOf(stage.places.front().element, lanes);
  int64_t perStep = std::max<int64_t>(1, kSegmentsPerStep / outputs);
  Carried sums =
      forEachTile(b, expr.dims, first, last, lanes * perStep, lanes, outer,
                  Carried(outputs, identity(b, kind, type)),
                  [&](const Tile &tile, ValueRange carried) {
                    SmallVector<Segment> segments;
                    int64_t ofOutput = tile.size() / outputs;
                    Tile alongAxis{{Value()}, {ofOutput}, {1}};
                    for (int64_t output = 0; output < outputs; ++output)
                      for (Segment segment : alongAxis.segments(lanes)) {
                        segment.start += output * ofOutput;
                        segments.push_back(segment);
                      }
                    if (cursor)
                      prefetchAhead(expr, tile, *cursor);
                    Evaluator evaluator(b, frame, expr, tile, segments);
                    Carried next(carried);
                    for (auto [segment, value] :
                         llvm::zip(segments, evaluator.at(cursor))) {
                      Value &sum = next[segment.start / ofOutput];
                      sum = combine(b, kind, sum, widen(b, kind, value, type));
                    }
                    return next;
                  });
  for (const Segment &segment :
       outer.segments(llvm::bit_ceil(uint64_t(outputs)))) {
    Value sum = combineLanes(
        b, kind, ArrayRef(sums).slice(segment.start, segment.lanes));
    storeSegment(b, frame, finishMean(stage, sum),
                 frame.rowOf(stage.places.front(), cursor), outer,
                 expr.targets.front(), segment);
  }
}

/// Of the vectors along the axis, dims [first, last).
int64_t StageEmitter::lanesAlongAxis(const Expr &expr, unsigned first,
                                     unsigned last) {
  uint64_t size = 1;
  for (unsigned dim = first; dim < last; ++dim)
    size *= expr.dims[dim];
  return std::min<int64_t>(lanesFor(expr, options.vectorBytes),
                           llvm::bit_floor(std::max<uint64_t>(1, size)));
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
  // Elements of the axes before the axis: as many as have a vector of sums
  // each, or one at a time.
  int64_t together = inner > 1 ? 1
                               : std::min(segmentsPerTile(expr, options),
                                          lanesAlongAxis(expr, first, last));
  forEachTile(b, expr.dims, 0, first, together, /*lanes=*/1,
              originTile(expr.dims.size()), {},
              [&](const Tile &tile, ValueRange) {
                if (inner == 1)
                  emitContractTile(stage, tile, first, last, cursor);
                else
                  emitContractInner(stage, tile, first, last, cursor);
                return Carried();
              });
}
