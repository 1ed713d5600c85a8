#include "gossamer/lowering/Evaluate.h"

#include "gossamer/lowering/Combine.h"

#include "gossamer/program/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static Type elementOf(const ExprNode &node) {
  return getElementTypeOrSelf(node.value.getType());
}

int64_t lowering::lanesFor(const Expr &expr, int64_t vectorBytes) {
  int64_t bytes = 4;
  for (const ExprNode &node : expr.nodes)
    if (node.kind != ExprNode::Kind::Degree &&
        node.kind != ExprNode::Kind::RowId &&
        node.kind != ExprNode::Kind::EdgeId)
      bytes = std::max(bytes, bytesOf(elementOf(node)));
  return vectorBytes / bytes;
}

Value lowering::broadcastTo(ImplicitLocOpBuilder &b, Value value,
                            int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(b, vectorOf(value.getType(), lanes),
                                     value);
}

Evaluator::Evaluator(ImplicitLocOpBuilder &builder, KernelFrame &kernelFrame,
                     const Expr &expression, const Tile &box,
                     ArrayRef<Segment> vectors)
    : b(builder), frame(kernelFrame), expr(expression), tile(box),
      segments(vectors) {
  computeInvariants();
}

Evaluator::Evaluator(ImplicitLocOpBuilder &builder, KernelFrame &kernelFrame,
                     const Expr &expression, int64_t edgesPerVector, Value last)
    : b(builder), frame(kernelFrame), expr(expression),
      tile(originTile(expression.dims.size())), edges(edgesPerVector),
      lastEdge(last) {
  tile.shape.assign(expr.dims.begin(), expr.dims.end());
  segments.push_back({0, edges * expr.size()});
  computeInvariants();
}

void Evaluator::findUniform() {
  for (const ExprNode &node : expr.nodes) {
    bool constant = node.kind == ExprNode::Kind::Splat ||
                    node.kind == ExprNode::Kind::Degree ||
                    node.kind == ExprNode::Kind::RowId ||
                    node.kind == ExprNode::Kind::EdgeId;
    bool computed =
        node.kind == ExprNode::Kind::Compute &&
        llvm::all_of(node.operands, [&](unsigned id) { return uniform[id]; });
    uniform.push_back(constant || computed);
  }
}

void Evaluator::computeInvariants() {
  findUniform();
  values.assign(segments.size(), SmallVector<Value>(expr.nodes.size()));
  rows.assign(expr.nodes.size(), Value());
  for (auto [id, node] : llvm::enumerate(expr.nodes))
    if (node.kind == ExprNode::Kind::Random) {
      auto uniform = cast<mp::UniformOp>(node.value.getDefiningOp());
      Value seed = frame.load(frame.rowOf(uniform.getSeed(), nullptr),
                              b.getI64Type(), 1);
      draws.try_emplace(id, b, uniform, seed, frame.vectorBytes / 4);
    }
  for (auto [id, node] : llvm::enumerate(expr.nodes))
    for (unsigned segment = 0; segment < segments.size(); ++segment)
      if (!node.perEdge)
        evaluate(id, segment, nullptr);
}

Carried Evaluator::at(EdgeCursor *cursor) {
  for (auto [id, node] : llvm::enumerate(expr.nodes)) {
    if (!node.perEdge)
      continue;
    rows[id] = Value();
    for (auto &ofSegment : values)
      ofSegment[id] = Value();
  }
  Carried results;
  for (auto [index, segment] : llvm::enumerate(segments)) {
    for (unsigned id = 0; id < expr.nodes.size(); ++id)
      evaluate(id, index, cursor);
    for (unsigned id : expr.results)
      results.push_back(
          broadcastTo(b, evaluate(id, index, cursor), segment.lanes));
  }
  return results;
}

Value Evaluator::evaluate(unsigned id, unsigned segment, EdgeCursor *cursor) {
  const ExprNode &node = expr.nodes[id];
  Value &known = values[uniform[id] ? 0 : segment][id];
  if (known)
    return known;
  int64_t lanes = uniform[id] ? 1 : segments[segment].lanes;
  if (node.kind == ExprNode::Kind::Leaf)
    return known =
               edges > 1 ? leafOfEdges(id, cursor) : leaf(id, segment, cursor);
  if (node.kind == ExprNode::Kind::EdgeId) {
    known = frame.edgeIdOf(*cursor);
    if (!elementOf(node).isInteger(64))
      known = arith::TruncIOp::create(b, elementOf(node), known);
    return known;
  }
  if (node.kind == ExprNode::Kind::Position)
    return known = position(node, segments[segment]);
  if (node.kind == ExprNode::Kind::Random) {
    draw(id, cursor);
    return known;
  }
  SmallVector<Value, 3> operands;
  for (unsigned operand : node.operands)
    operands.push_back(
        broadcastTo(b, evaluate(operand, segment, cursor), lanes));
  return known = compute(node, operands, lanes);
}

static TypedAttr splatValue(Operation *op) {
  if (auto fill = dyn_cast<mp::FillOp>(op))
    return fill.getValue();
  auto splat = cast<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
  return cast<TypedAttr>(splat.getSplatValue<Attribute>());
}

Value Evaluator::compute(const ExprNode &node, ArrayRef<Value> operands,
                         int64_t lanes) {
  Operation *op = node.value.getDefiningOp();
  Type type = vectorOf(elementOf(node), lanes);
  switch (node.kind) {
  case ExprNode::Kind::Splat:
    return splat(b, type, splatValue(op));
  case ExprNode::Kind::Degree:
    if (elementOf(node).isInteger(64))
      return frame.degree;
    return arith::TruncIOp::create(b, type, frame.degree);
  case ExprNode::Kind::RowId:
    return frame.row;
  case ExprNode::Kind::FillEmpty: {
    Value empty = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                        frame.degree, constant(b, 0));
    Value value = splat(b, type, cast<mp::FillIsolatedOp>(op).getValue());
    return arith::SelectOp::create(b, empty, value, operands.front());
  }
  case ExprNode::Kind::Compute: {
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(type);
    state.propertiesAttr = op->getPropertiesAsAttribute();
    Operation *computed = b.create(state);
    if (auto product = dyn_cast<arith::MulFOp>(computed))
      product.setFastmath(arith::FastMathFlags::contract);
    return computed->getResult(0);
  }
  case ExprNode::Kind::Leaf:
  case ExprNode::Kind::EdgeId:
  case ExprNode::Kind::Position:
  case ExprNode::Kind::Random:
    break;
  }
  llvm_unreachable("not made from operands");
}

Value Evaluator::position(const ExprNode &node, Segment segment) {
  SmallVector<int64_t> offsets = tile.laneOffsets(node.index, segment);
  Type type = vectorOf(b.getI64Type(), segment.lanes);
  Value lanes = segment.lanes == 1
                    ? constant(b, offsets.front())
                    : arith::ConstantOp::create(
                          b, DenseElementsAttr::get(cast<VectorType>(type),
                                                    ArrayRef(offsets)))
                          .getResult();
  Value base = tile.baseOffset(b, node.index);
  if (!base)
    return lanes;
  return arith::AddIOp::create(b, lanes, broadcastTo(b, base, segment.lanes));
}

Value Evaluator::rowPointer(unsigned id, EdgeCursor *cursor) {
  if (rows[id])
    return rows[id];
  const ExprNode &node = expr.nodes[id];
  Value dynamic = tile.baseOffset(b, node.index);
  Type element = elementOf(node);
  Type stored = element.isInteger(1) ? b.getI8Type() : element;
  return rows[id] =
             frame.element(frame.rowOf(node.value, cursor), stored, dynamic, 0);
}

Value Evaluator::leaf(unsigned id, unsigned segment, EdgeCursor *cursor) {
  return loadLanes(id, rowPointer(id, cursor),
                   tile.laneOffsets(expr.nodes[id].index, segments[segment]));
}

static bool isContiguous(ArrayRef<int64_t> offsets) {
  for (size_t lane = 1; lane < offsets.size(); ++lane)
    if (offsets[lane] != offsets[lane - 1] + 1)
      return false;
  return true;
}

/// Lanes at the given elements of a row: one load where they are together, one
/// or two and a shuffle where they are close, else one load each.
Value Evaluator::loadLanes(unsigned id, Value row, ArrayRef<int64_t> offsets) {
  Type element = elementOf(expr.nodes[id]);
  Type stored = element.isInteger(1) ? b.getI8Type() : element;
  int64_t lanes = offsets.size();
  auto loadAt = [&](int64_t offset, int64_t count) {
    return frame.load(frame.element(row, stored, Value(), offset), element,
                      count);
  };
  if (isContiguous(offsets))
    return loadAt(offsets.front(), lanes);
  if (llvm::all_equal(offsets))
    return broadcastTo(b, loadAt(offsets.front(), 1), lanes);
  auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
  int64_t range = *most - *least + 1;
  if (range <= 4 * lanes) {
    // Two that overlap are powers of two as well: LLVM can't cut an odd number
    // of 16-bit floats.
    int64_t count = llvm::bit_floor(uint64_t(range)), second = range - count;
    Value left = loadAt(*least, count);
    Value right = second == 0 ? left : loadAt(*least + second, count);
    SmallVector<int64_t> picks;
    for (int64_t offset : offsets) {
      int64_t pick = offset - *least;
      picks.push_back(pick < count ? pick : pick - second + count);
    }
    return vector::ShuffleOp::create(b, left, right, picks);
  }
  Value vector = zero(b, vectorOf(element, lanes));
  for (auto [lane, offset] : llvm::enumerate(offsets))
    vector = vector::InsertOp::create(b, loadAt(offset, 1), vector, lane);
  return vector;
}

/// A leaf for several edges: one load from a buffer, where edges lie side by
/// side; one load per edge from a table; the same row for all otherwise.
Value Evaluator::leafOfEdges(unsigned id, EdgeCursor *cursor) {
  const ExprNode &node = expr.nodes[id];
  SmallVector<int64_t> offsets = tile.laneOffsets(node.index, {0, expr.size()});
  int64_t features = offsets.size(), lanes = features * edges;
  bool packed = node.perEdge &&
                frame.placeOf(node.value).kind != Place::Kind::Table &&
                frame.placeOf(node.value).width == features &&
                offsets.front() == 0 && isContiguous(offsets);
  if (packed)
    return frame.load(rowPointer(id, cursor), elementOf(node), lanes);
  if (!node.perEdge) {
    Value row = loadLanes(id, rowPointer(id, cursor), offsets);
    if (features == 1)
      return broadcastTo(b, row, lanes);
    SmallVector<int64_t> repeat;
    for (int64_t lane = 0; lane < lanes; ++lane)
      repeat.push_back(lane % features);
    return vector::ShuffleOp::create(b, row, row, repeat);
  }
  Value all = zero(b, vectorOf(elementOf(node), lanes));
  for (int64_t edge = 0; edge < edges; ++edge) {
    EdgeCursor at = edgeAfter(*cursor, edge);
    Value row = loadLanes(id, frame.rowOf(node.value, &at), offsets);
    all = features == 1
              ? vector::InsertOp::create(b, row, all, edge).getResult()
              : vector::InsertStridedSliceOp::create(
                    b, row, all, ArrayRef<int64_t>{edge * features},
                    ArrayRef<int64_t>{1})
                    .getResult();
  }
  return all;
}

EdgeCursor Evaluator::edgeAfter(const EdgeCursor &cursor, int64_t count) {
  Value position =
      arith::AddIOp::create(b, cursor.position, constant(b, count));
  return {arith::MinSIOp::create(b, position, lastEdge), {}, {}};
}

/// Numbers of the rows of a table that are at hand: of some edges, of the row
/// of the kernel, or 0 for the one row of a table without rows.
SmallVector<Value> Evaluator::rowsToDraw(mp::UniformOp uniform,
                                         EdgeCursor *cursor) {
  if (!mp::rowsOf(uniform.getType()))
    return {constant(b, 0)};
  if (!mp::onEdges(uniform.getType()))
    return {frame.row};
  if (edges == 1)
    return {frame.edgeIdOf(*cursor)};
  SmallVector<Value> ids;
  for (int64_t edge = 0; edge < edges; ++edge) {
    EdgeCursor at = edgeAfter(*cursor, edge);
    ids.push_back(frame.edgeIdOf(at));
  }
  return ids;
}

/// The numbers of all segments at once: they share counters, if it is known
/// where in a counter they begin.
void Evaluator::draw(unsigned id, EdgeCursor *cursor) {
  const ExprNode &node = expr.nodes[id];
  auto uniform = cast<mp::UniformOp>(node.value.getDefiningOp());
  Draws &numbers = draws.find(id)->second;
  SmallVector<Value> from = rowsToDraw(uniform, cursor);
  bool inStep =
      tile.divisorOfBase(node.index) % numbersPerCounter(elementOf(node)) == 0;
  SmallVector<SmallVector<Draws::Place>> places(segments.size());
  for (auto [segment, lanes, ofSegment] : llvm::zip(segments, places, values)) {
    if (!inStep) {
      ofSegment[id] = numbers.atElements(from.front(), position(node, segment));
      continue;
    }
    int64_t features = segment.lanes / edges;
    for (unsigned row = 0; row < from.size(); ++row)
      for (int64_t offset :
           tile.laneOffsets(node.index, {segment.start, features}))
        lanes.push_back({row, offset});
  }
  if (!inStep)
    return;
  Value base = tile.baseOffset(b, node.index);
  for (auto [ofSegment, drawn] :
       llvm::zip(values, numbers.at(from, base, places)))
    ofSegment[id] = drawn;
}

void lowering::storeSegment(ImplicitLocOpBuilder &b, KernelFrame &frame,
                            Value value, Value row, const Tile &tile,
                            const LinearForm &target, Segment segment) {
  Type element = getElementTypeOrSelf(value.getType());
  Type stored = element.isInteger(1) ? b.getI8Type() : element;
  row = frame.element(row, stored, tile.baseOffset(b, target), 0);
  SmallVector<int64_t> offsets = tile.laneOffsets(target, segment);
  if (isContiguous(offsets)) {
    frame.store(value, frame.element(row, stored, Value(), offsets.front()));
    return;
  }
  for (auto [lane, offset] : llvm::enumerate(offsets))
    frame.store(vector::ExtractOp::create(b, value, lane),
                frame.element(row, stored, Value(), offset));
}

/// Whole aligned vectors of rows that are whole cache lines.
static bool canStream(const KernelFrame &frame, const Place &place,
                      const Tile &tile, const LinearForm &target,
                      Segment segment) {
  if (!place.writeOnly || place.level == Level::Shared)
    return false;
  int64_t bytes = bytesOf(place.element);
  SmallVector<int64_t> offsets = tile.laneOffsets(target, segment);
  auto isAligned = [&](int64_t elements) {
    return elements * bytes % frame.vectorBytes == 0;
  };
  return segment.lanes * bytes == frame.vectorBytes &&
         place.width * bytes % kStreamAlignment == 0 && isContiguous(offsets) &&
         isAligned(offsets.front()) && isAligned(tile.divisorOfBase(target));
}

void lowering::storeResult(ImplicitLocOpBuilder &b, KernelFrame &frame,
                           Value value, const Place &place, Value row,
                           const Tile &tile, const LinearForm &target,
                           Segment segment) {
  if (!canStream(frame, place, tile, target, segment)) {
    storeSegment(b, frame, value, row, tile, target, segment);
    return;
  }
  Value pointer = frame.element(row, place.element, tile.baseOffset(b, target),
                                tile.laneOffsets(target, segment).front());
  auto branch = scf::IfOp::create(b, frame.stream, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  frame.storeStreaming(value, pointer);
  b.setInsertionPointToStart(branch.elseBlock());
  frame.store(value, pointer);
}
