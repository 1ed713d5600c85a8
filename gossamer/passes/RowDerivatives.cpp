// Derivatives of mp ops.
//
// What copies values sums their gradients, and what sums copies them: gather
// and reduce at one end of the edges are each other's adjoint, as are
// broadcast and the sums over features or over all rows, slice and concat with
// zeros. No gradient is scattered: where the forward reads rows of sources, the
// backward reduces over the edges that leave them.

#include "gossamer/passes/RowRules.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

Value gossamer::reshapeTo(Adjoint &at, Value value, Type type) {
  return at.builder->createOrFold<ReshapeOp>(at.getLoc(), type, value);
}

Value gossamer::broadcastTo(Adjoint &at, Value value, Type type) {
  return at.builder->createOrFold<BroadcastOp>(at.getLoc(), type, value);
}

Value gossamer::sumAtNodes(Adjoint &at, End end, Value edges) {
  RowsAttr nodes = at.nodeRows->at(end, rowsOf(edges));
  return ReduceOp::create(*at.builder, at.getLoc(),
                          withRows(edges.getType(), nodes), ReduceKind::Sum,
                          end, edges);
}

static Value sumAxis(Adjoint &at, Value value, int64_t axis) {
  RankedTensorType type = tableType(value);
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  return ReduceAxisOp::create(*at.builder, at.getLoc(), type.clone(shape),
                              ReduceKind::Sum, value, axis);
}

static Value sumRows(Adjoint &at, Value value) {
  if (!rowsOf(value))
    return value;
  if (onEdges(value.getType()))
    value = sumAtNodes(at, End::Dst, value);
  return SumRowsOp::create(*at.builder, at.getLoc(),
                           withRows(value.getType(), RowsAttr()), value);
}

Value gossamer::concat(Adjoint &at, ValueRange parts, int64_t axis) {
  RankedTensorType type = tableType(parts.front());
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 0;
  for (Value part : parts)
    shape[axis] += tableType(part).getDimSize(axis);
  return ConcatOp::create(*at.builder, at.getLoc(), type.clone(shape), parts,
                          axis);
}

//===----------------------------------------------------------------------===//
// Between row sets
//===----------------------------------------------------------------------===//

static void ofGather(Adjoint &at) {
  auto op = cast<GatherOp>(at.op);
  if (at.wants(op.getNodes()))
    at.add(op.getNodes(), sumAtNodes(at, op.getEnd(), at.gradient));
}

/// Isolated nodes show a constant, not what was computed for them.
static void ofFillIsolated(Adjoint &at) {
  auto op = cast<FillIsolatedOp>(at.op);
  if (!at.wants(op.getNodes()))
    return;
  Type element = getElementTypeOrSelf(op.getType());
  at.add(op.getNodes(),
         FillIsolatedOp::create(*at.builder, at.getLoc(), op.getType(),
                                op.getEnd(), at.gradient,
                                at.builder->getFloatAttr(element, 0.0)));
}

template <typename Transposed> static void ofRowSet(Adjoint &at) {
  Value rows = at.op->getOperand(0);
  if (at.wants(rows))
    at.add(rows, Transposed::create(*at.builder, at.getLoc(), rows.getType(),
                                    at.gradient));
}

static void ofSumRows(Adjoint &at) {
  Value rows = at.op->getOperand(0);
  if (at.wants(rows))
    at.add(rows, broadcastTo(at, at.gradient, rows.getType()));
}

//===----------------------------------------------------------------------===//
// Rows of a table by number
//===----------------------------------------------------------------------===//

static void ofLookup(Adjoint &at) {
  auto op = cast<LookupOp>(at.op);
  if (at.wants(op.getTable()))
    at.add(op.getTable(),
           SumByOp::create(*at.builder, at.getLoc(), op.getTable().getType(),
                           at.gradient, op.getIndex(), op.getFromEnd(),
                           op.getFieldAttr()));
}

static void ofSumBy(Adjoint &at) {
  auto op = cast<SumByOp>(at.op);
  if (at.wants(op.getRows()))
    at.add(op.getRows(),
           LookupOp::create(*at.builder, at.getLoc(), op.getRows().getType(),
                            at.gradient, op.getIndex(), op.getFromEnd(),
                            op.getFieldAttr()));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Sums over what was repeated: features first, the rest is then less.
static void ofBroadcast(Adjoint &at) {
  auto op = cast<BroadcastOp>(at.op);
  Value input = op.getInput(), sum = at.gradient;
  if (!at.wants(input))
    return;
  RowsAttr rows = rowsOf(input);
  ArrayRef<int64_t> have = featureShape(input.getType());
  ArrayRef<int64_t> want = featureShape(op.getType());
  int64_t rowAxes = numRowAxes(op.getType());
  int64_t missing = want.size() - have.size();
  for (int64_t i = want.size() - 1; i >= 0; --i)
    if (i < missing || have[i - missing] != want[i])
      sum = sumAxis(at, sum, i + rowAxes);
  if (!rows)
    sum = sumRows(at, sum);
  at.add(input, reshapeTo(at, sum, input.getType()));
}

static void ofReshape(Adjoint &at) {
  Value input = at.op->getOperand(0);
  if (at.wants(input))
    at.add(input, reshapeTo(at, at.gradient, input.getType()));
}

static void ofTranspose(Adjoint &at) {
  auto op = cast<TransposeOp>(at.op);
  if (!at.wants(op.getInput()))
    return;
  SmallVector<int64_t> inverse(op.getPermutation().size());
  for (auto [axis, source] : llvm::enumerate(op.getPermutation()))
    inverse[source] = axis;
  at.add(op.getInput(),
         TransposeOp::create(*at.builder, at.getLoc(), op.getInput().getType(),
                             at.gradient, inverse));
}

static Value zeros(Adjoint &at, Type type) {
  return at.term(Value()).full(type, 0.0);
}

/// `value` with `before` and `after` zeros around it along `axis`.
static Value pad(Adjoint &at, Value value, int64_t axis, int64_t before,
                 int64_t after) {
  SmallVector<Value> parts;
  auto addZeros = [&](int64_t count) {
    SmallVector<int64_t> shape(tableType(value).getShape());
    shape[axis] = count;
    if (count > 0)
      parts.push_back(zeros(at, tableType(value).clone(shape)));
  };
  addZeros(before);
  parts.push_back(value);
  addZeros(after);
  return parts.size() == 1 ? value : concat(at, parts, axis);
}

/// `value` with `stride - 1` zeros behind each element of `axis`.
static Value spreadOut(Adjoint &at, Value value, int64_t axis, int64_t stride) {
  RankedTensorType type = tableType(value);
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + axis + 1, 1);
  Value column = reshapeTo(at, value, type.clone(shape));
  shape.assign(type.getShape().begin(), type.getShape().end());
  shape[axis] *= stride;
  return reshapeTo(at, pad(at, column, axis + 1, 0, stride - 1),
                   type.clone(shape));
}

static void ofSlice(Adjoint &at) {
  auto op = cast<SliceOp>(at.op);
  Value input = op.getInput(), value = at.gradient;
  if (!at.wants(input))
    return;
  int64_t axis = op.getAxis(), offset = op.getOffset();
  int64_t room = tableType(input).getDimSize(axis) - offset;
  if (op.getStride() > 1)
    value = spreadOut(at, value, axis, op.getStride());
  int64_t size = tableType(value).getDimSize(axis);
  if (size > room) { // zeros behind the last element
    SmallVector<int64_t> shape(tableType(value).getShape());
    shape[axis] = size = room;
    value = SliceOp::create(*at.builder, at.getLoc(),
                            tableType(value).clone(shape), value, axis, 0, 1);
  }
  at.add(input, pad(at, value, axis, offset, room - size));
}

static void ofConcat(Adjoint &at) {
  auto op = cast<ConcatOp>(at.op);
  int64_t axis = op.getAxis(), offset = 0;
  for (Value input : op.getInputs()) {
    if (at.wants(input))
      at.add(input, at.builder->createOrFold<SliceOp>(
                        at.getLoc(), input.getType(), at.gradient, axis, offset,
                        /*stride=*/1));
    offset += tableType(input).getDimSize(axis);
  }
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static constexpr Derivative::Kind Known = Derivative::Known;
static constexpr Derivative::Kind Zero = Derivative::Zero;
static constexpr Derivative::Kind Refused = Derivative::Refused;

// clang-format off
static constexpr Derivative kTable[] = {
  // Between row sets.
  {"mp.gather",        Known, {}, ofGather},
  {"mp.reduce",        Known, {}, ofReduce},
  {"mp.softmax",       Known, {}, ofSoftmax},
  {"mp.fill_isolated", Known, {}, ofFillIsolated},
  {"mp.prefix",        Known, {}, ofRowSet<PadRowsOp>},
  {"mp.pad_rows",      Known, {}, ofRowSet<PrefixOp>},
  {"mp.sum_rows",      Known, {}, ofSumRows},
  // Rows of a table by number.
  {"mp.lookup",        Known, {}, ofLookup},
  {"mp.sum_by",        Known, {}, ofSumBy},
  // Along features.
  {"mp.broadcast",     Known, {}, ofBroadcast},
  {"mp.reshape",       Known, {}, ofReshape},
  {"mp.transpose",     Known, {}, ofTranspose},
  {"mp.slice",         Known, {}, ofSlice},
  {"mp.concat",        Known, {}, ofConcat},
  {"mp.reduce_axis",   Known, {}, ofReduceAxis},
  {"mp.softmax_axis",  Known, {}, ofSoftmaxAxis},
  // Products.
  {"mp.linear",        Known, {}, ofLinear},
  {"mp.contract_rows", Known, {}, ofContractRows},
  // Constants.
  {"mp.fill", Zero}, {"mp.iota", Zero}, {"mp.degree", Zero}, {"mp.detach", Zero},
  {"mp.uniform", Zero},
  // Gone before, or made after.
  {"mp.mailbox", Refused, {}, nullptr, "run resolve-mailbox first"},
  {"mp.kernel",  Refused, {}, nullptr, "differentiate before form-kernels"},
  {"mp.yield",   Refused, {}, nullptr, "differentiate before form-kernels"},
};
// clang-format on

ArrayRef<Derivative> gossamer::rowDerivatives() { return kTable; }
