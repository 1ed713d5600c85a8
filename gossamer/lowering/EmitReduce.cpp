// Reductions over the edges of a row, with accumulators in registers.
//
// A running sum in float loses digits after a few hundred terms, so edges are
// summed per block and blocks are summed. In a sweep without block buffers
//
//   for tile: total = start; for block: { part = identity;
//     for edge: part += value }; total += part }; store total
//
// and in a sweep with block buffers the loop over blocks is outermost and
// totals are in memory.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static Type resultType(const Stage &stage, unsigned result, int64_t lanes) {
  return vectorOf(stage.places[result].element, lanes);
}

Carried StageEmitter::identities(const Stage &stage,
                                 ArrayRef<Segment> segments) {
  Carried values;
  for (const Segment &segment : segments)
    for (auto [result, kind] : llvm::enumerate(stage.kinds))
      values.push_back(
          identity(b, kind, resultType(stage, result, segment.lanes)));
  return values;
}

Carried StageEmitter::combineAll(const Stage &stage, ValueRange left,
                                 ValueRange right) {
  Carried values;
  for (auto [index, l, r] : llvm::enumerate(left, right))
    values.push_back(combine(b, stage.kinds[index % stage.kinds.size()], l, r));
  return values;
}

/// A row without edges gets 0, so it starts there.
Value StageEmitter::startOfRow(mp::ReduceKind kind, Type type) {
  Value start = identity(b, kind, type);
  if (kind == mp::ReduceKind::Sum)
    return start;
  Value empty = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, frame.degree,
                                      constant(b, 0));
  return arith::SelectOp::create(b, empty, zero(b, type), start);
}

void StageEmitter::emitInitialValues(const Stage &stage) {
  int64_t lanes = lanesFor(stage.expr, options.vectorBytes);
  forEachTile(b, stage.expr.dims, 0, stage.expr.dims.size(),
              lanes * options.accumulators, lanes,
              originTile(stage.expr.dims.size()), {},
              [&](const Tile &tile, ValueRange) {
                for (const Segment &segment : tile.segments(lanes))
                  for (auto [result, kind] : llvm::enumerate(stage.kinds))
                    storeSegment(b, frame,
                                 startOfRow(kind, resultType(stage, result,
                                                             segment.lanes)),
                                 frame.reductionRow(stage.places[result]), tile,
                                 stage.expr.targets[result], segment);
                return Carried();
              });
}

Carried StageEmitter::reduceBlock(const Stage &stage, Evaluator &values,
                                  const Tile &tile, Value first, Value last) {
  int64_t lanes = lanesFor(stage.expr, options.vectorBytes);
  return emitFor(b, first, last, 1, identities(stage, tile.segments(lanes)),
                 [&](Value position, ValueRange parts) {
                   EdgeCursor cursor{position, {}, {}};
                   prefetchAhead(stage.expr, tile, cursor);
                   return combineAll(stage, parts, values.at(&cursor));
                 });
}

void StageEmitter::finishReduce(const Stage &stage, const EdgeRange &range,
                                ArrayRef<Value> totals, const Tile &tile,
                                ArrayRef<Segment> segments) {
  unsigned results = stage.kinds.size();
  for (auto [index, total] : llvm::enumerate(totals)) {
    const Place &place = stage.places[index % results];
    const LinearForm &target = stage.expr.targets[index % results];
    Segment segment = segments[index / results];
    Value row = frame.reductionRow(place);
    if (range.isBlock) // the next block reads it
      storeSegment(b, frame, total, row, tile, target, segment);
    else
      storeResult(b, frame, total, place, row, tile, target, segment);
  }
}

void StageEmitter::emitReduceTile(const Stage &stage, const EdgeRange &range,
                                  const Tile &tile, int64_t lanes) {
  SmallVector<Segment> segments = tile.segments(lanes);
  unsigned results = stage.kinds.size();
  Evaluator values(b, frame, stage.expr, tile, segments);
  Carried totals;
  for (auto [s, segment] : llvm::enumerate(segments))
    for (unsigned r = 0; r < results; ++r) {
      Type type = resultType(stage, r, segment.lanes);
      totals.push_back(range.isBlock
                           ? loadSegment(stage.places[r],
                                         frame.reductionRow(stage.places[r]),
                                         tile, stage.expr.targets[r], segment)
                           : startOfRow(stage.kinds[r], type));
    }
  if (range.isBlock)
    totals =
        combineAll(stage, totals,
                   reduceBlock(stage, values, tile, range.first, range.last));
  else
    totals = emitFor(
        b, range.first, range.last, kMaxBlockEdges, totals,
        [&](Value block, ValueRange sums) {
          Value end = arith::MinSIOp::create(
              b, arith::AddIOp::create(b, block, constant(b, kMaxBlockEdges)),
              range.last);
          return combineAll(stage, sums,
                            reduceBlock(stage, values, tile, block, end));
        });
  finishReduce(stage, range, totals, tile, segments);
}

Value StageEmitter::loadSegment(const Place &place, Value row, const Tile &tile,
                                const LinearForm &form, Segment segment) {
  Type stored = place.element.isInteger(1) ? b.getI8Type() : place.element;
  Value pointer = frame.element(row, stored, tile.baseOffset(b, form),
                                tile.laneOffsets(form, segment).front());
  return frame.load(pointer, place.element, segment.lanes);
}

int64_t lowering::segmentsPerTile(const Expr &expr,
                                  const KernelOptions &options) {
  constexpr int64_t opBudget = 256;
  int64_t results = std::max<int64_t>(1, expr.results.size());
  int64_t byOps = opBudget / static_cast<int64_t>(expr.nodes.size());
  return std::max<int64_t>(1, std::min(options.accumulators / results, byOps));
}

void StageEmitter::emitReduce(const Stage &stage, const EdgeRange &range) {
  if (int64_t edges = edgesPerVector(stage); edges > 1) {
    emitPackedReduce(stage, range, edges);
    return;
  }
  int64_t lanes = lanesFor(stage.expr, options.vectorBytes);
  forEachTile(b, stage.expr.dims, 0, stage.expr.dims.size(),
              lanes * segmentsPerTile(stage.expr, options), lanes,
              originTile(stage.expr.dims.size()), {},
              [&](const Tile &tile, ValueRange) {
                emitReduceTile(stage, range, tile, lanes);
                return Carried();
              });
}

void StageEmitter::emitMap(const Expr &expr, const Place &place,
                           EdgeCursor *cursor) {
  int64_t lanes = lanesFor(expr, options.vectorBytes);
  int64_t perTile = std::min<int64_t>(4, segmentsPerTile(expr, options));
  forEachTile(
      b, expr.dims, 0, expr.dims.size(), lanes * perTile, lanes,
      originTile(expr.dims.size()), {}, [&](const Tile &tile, ValueRange) {
        SmallVector<Segment> segments = tile.segments(lanes);
        if (cursor)
          prefetchAhead(expr, tile, *cursor);
        Evaluator values(b, frame, expr, tile, segments);
        Carried results = values.at(cursor);
        for (auto [segment, value] : llvm::zip(segments, results))
          storeResult(b, frame, value, place, frame.rowOf(place, cursor), tile,
                      expr.targets.front(), segment);
        return Carried();
      });
}

void StageEmitter::emitOnce(const Stage &stage) {
  switch (stage.kind) {
  case Stage::Kind::Map:
    return emitMap(stage.expr, stage.places.front(), nullptr);
  case Stage::Kind::Contract:
    return emitContract(stage, nullptr);
  case Stage::Kind::Linear:
    return emitLinear(stage, nullptr);
  case Stage::Kind::SumRows:
    return emitSumRows(stage, nullptr);
  case Stage::Kind::Outer:
    return emitOuter(stage, nullptr);
  case Stage::Kind::Reduce:
    break;
  }
  llvm_unreachable("runs over edges");
}

void StageEmitter::emitOverEdges(const Stage &stage, const EdgeRange &range) {
  if (stage.kind == Stage::Kind::Reduce)
    return emitReduce(stage, range);
  if (stage.kind == Stage::Kind::Linear)
    return emitLinearOverEdges(stage, range);
  int64_t edges = edgesPerVector(stage);
  if (edges > 1)
    return emitPackedMap(stage, range, edges);
  emitFor(b, range.first, range.last, 1, {}, [&](Value position, ValueRange) {
    EdgeCursor cursor{position, {}, {}};
    if (stage.kind == Stage::Kind::Contract)
      emitContract(stage, &cursor);
    else if (stage.kind == Stage::Kind::Outer)
      emitOuter(stage, &cursor);
    else if (stage.kind == Stage::Kind::SumRows)
      emitSumRows(stage, &cursor);
    else
      emitMap(stage.expr, stage.places.front(), &cursor);
    return Carried();
  });
}
