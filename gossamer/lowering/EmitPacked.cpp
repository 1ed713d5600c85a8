// Stages with few features: several edges per vector.
//
// With H features per edge and H a power of two, a vector of L lanes holds L /
// H consecutive edges, edge by edge, as buffers in scratch do. The exp of an
// attention score is so one vector op for L / H edges.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static bool isRandom(const ExprNode &node) {
  return node.kind == ExprNode::Kind::Random;
}

/// As many edges as fill a vector with counters, while what is drawn for edges
/// past the last one fits the padding.
int64_t StageEmitter::edgesPerDraw(const Stage &stage, int64_t features) const {
  const Place &place = stage.places.front();
  if (place.width != features || place.level != Level::Edge)
    return 1;
  int64_t counters =
      llvm::divideCeil(features, numbersPerCounter(place.element));
  int64_t bytes = features * bytesOf(place.element);
  int64_t edges =
      std::min(options.vectorBytes / 4 / counters, kBufferPadding / bytes);
  return llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(edges, 1)));
}

/// 1 when the stage runs edge by edge. Tables are read per edge anyway, so it
/// pays for expensive ops, and where everything is in buffers.
int64_t StageEmitter::edgesPerVector(const Stage &stage) const {
  bool reduces = stage.kind == Stage::Kind::Reduce;
  if (!reduces && (stage.kind != Stage::Kind::Map ||
                   stage.places.front().kind == Place::Kind::Table))
    return 1;
  int64_t features = stage.expr.size();
  int64_t lanes = lanesFor(stage.expr, options.vectorBytes);
  bool onlyDraws =
      stage.expr.nodes.size() == 1 && isRandom(stage.expr.nodes.front());
  if (onlyDraws && !reduces)
    return edgesPerDraw(stage, features);
  if (!llvm::isPowerOf2_64(features) || features * 2 > lanes)
    return 1;
  auto isNumber = [](const ExprNode &node) {
    return node.kind == ExprNode::Kind::EdgeId ||
           node.kind == ExprNode::Kind::Position || isRandom(node);
  };
  if (llvm::any_of(stage.expr.nodes, isNumber))
    return 1;
  bool anyEdge = false, buffered = true;
  for (const ExprNode &node : stage.expr.nodes) {
    if (node.kind != ExprNode::Kind::Leaf || !node.perEdge)
      continue;
    anyEdge = true;
    buffered &= frame.placeOf(node.value).kind != Place::Kind::Table;
  }
  // Whole vectors are stored as they are, so the result is the whole row.
  if (!reduces && stage.places.front().width != features)
    return 1;
  bool pays = buffered || (stage.expensive && !reduces);
  return anyEdge && pays ? lanes / features : 1;
}

void StageEmitter::emitPackedMap(const Stage &stage, const EdgeRange &range,
                                 int64_t edges) {
  Value last = arith::SubIOp::create(b, range.last, constant(b, 1));
  Evaluator values(b, frame, stage.expr, edges, last);
  emitFor(b, range.first, range.last, edges, {},
          [&](Value position, ValueRange) {
            EdgeCursor cursor{position, {}, {}};
            // The lanes of edges past the last one land in the padding.
            Value result = values.at(&cursor).front();
            frame.store(result, frame.rowOf(stage.places.front(), &cursor));
            return Carried();
          });
}

/// Lanes of edges at or after `last` become `kind`'s identity.
static Value maskAfter(ImplicitLocOpBuilder &b, Value vector, Value position,
                       Value last, mp::ReduceKind kind, int64_t edges) {
  int64_t lanes = lanesOf(vector.getType());
  SmallVector<int64_t> edgeOfLane;
  for (int64_t lane = 0; lane < lanes; ++lane)
    edgeOfLane.push_back(lane / (lanes / edges));
  Value edge = arith::ConstantOp::create(
      b, DenseElementsAttr::get(VectorType::get(lanes, b.getI64Type()),
                                ArrayRef<int64_t>(edgeOfLane)));
  Value left = arith::SubIOp::create(b, last, position);
  Value valid = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, edge,
                                      broadcastTo(b, left, lanes));
  return arith::SelectOp::create(b, valid, vector,
                                 identity(b, kind, vector.getType()));
}

/// The lanes of all edges combined: one lane per feature.
static Value foldEdges(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                       Value vector, int64_t features) {
  for (int64_t lanes = lanesOf(vector.getType()); lanes > features;
       lanes /= 2) {
    auto half = llvm::to_vector(llvm::seq<int64_t>(0, lanes / 2));
    auto rest = llvm::to_vector(llvm::seq<int64_t>(lanes / 2, lanes));
    vector =
        combine(b, kind, vector::ShuffleOp::create(b, vector, vector, half),
                vector::ShuffleOp::create(b, vector, vector, rest));
  }
  return features == 1 ? vector::ExtractOp::create(b, vector, 0).getResult()
                       : vector;
}

/// Whole vectors first, then at most one with lanes masked.
Carried StageEmitter::emitPackedBlock(const Stage &stage, Evaluator &values,
                                      Value first, Value last, int64_t edges) {
  int64_t features = stage.expr.size();
  SmallVector<Segment> segments{{0, edges * features}};
  Value count = arith::SubIOp::create(b, last, first);
  Value whole = arith::SubIOp::create(
      b, last, arith::AndIOp::create(b, count, constant(b, edges - 1)));
  Carried parts = emitFor(b, first, whole, edges, identities(stage, segments),
                          [&](Value position, ValueRange sums) {
                            EdgeCursor cursor{position, {}, {}};
                            return combineAll(stage, sums, values.at(&cursor));
                          });
  parts = emitFor(b, whole, last, edges, parts,
                  [&](Value position, ValueRange sums) {
                    EdgeCursor cursor{position, {}, {}};
                    Carried next = values.at(&cursor);
                    for (auto [kind, value] : llvm::zip(stage.kinds, next))
                      value = maskAfter(b, value, position, last, kind, edges);
                    return combineAll(stage, sums, next);
                  });
  for (auto [kind, part] : llvm::zip(stage.kinds, parts))
    part = foldEdges(b, kind, part, features);
  return parts;
}

void StageEmitter::emitPackedReduce(const Stage &stage, const EdgeRange &range,
                                    int64_t edges) {
  Tile tile = originTile(stage.expr.dims.size());
  tile.shape.assign(stage.expr.dims.begin(), stage.expr.dims.end());
  Segment all{0, stage.expr.size()};
  Value lastEdge = arith::SubIOp::create(b, range.last, constant(b, 1));
  Evaluator values(b, frame, stage.expr, edges, lastEdge);
  Carried totals;
  for (auto [r, place] : llvm::enumerate(stage.places))
    totals.push_back(
        range.isBlock
            ? loadSegment(place, frame.reductionRow(place), tile,
                          stage.expr.targets[r], all)
            : startOfRow(stage.kinds[r], vectorOf(place.element, all.lanes)));
  if (range.isBlock)
    totals = combineAll(
        stage, totals,
        emitPackedBlock(stage, values, range.first, range.last, edges));
  else
    totals = emitFor(
        b, range.first, range.last, kMaxBlockEdges, totals,
        [&](Value block, ValueRange sums) {
          Value end = arith::MinSIOp::create(
              b, arith::AddIOp::create(b, block, constant(b, kMaxBlockEdges)),
              range.last);
          return combineAll(stage, sums,
                            emitPackedBlock(stage, values, block, end, edges));
        });
  finishReduce(stage, range, totals, tile, all);
}
