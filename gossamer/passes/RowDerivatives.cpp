// Derivatives of mp ops.
//
// What copies values sums their gradients, and what sums copies them: gather
// and reduce at one end of the edges are each other's adjoint, as are
// broadcast and the sums over features or over all rows, slice and concat with
// zeros. No gradient is scattered: where the forward reads rows of sources, the
// backward reduces over the edges that leave them.

#include "gossamer/ir/MpDialect.h"
#include "gossamer/passes/Derivatives.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowScale.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static RankedTensorType tableType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Value zeros(Adjoint &at, Type type) {
  return at.term(Value()).full(type, 0.0);
}

static Value reshapeTo(Adjoint &at, Value value, Type type) {
  return at.builder->createOrFold<ReshapeOp>(at.getLoc(), type, value);
}

static Value broadcastTo(Adjoint &at, Value value, Type type) {
  return at.builder->createOrFold<BroadcastOp>(at.getLoc(), type, value);
}

static Value gatherTo(Adjoint &at, End end, Value nodes, RowsAttr edges) {
  return GatherOp::create(*at.builder, at.getLoc(),
                          withRows(nodes.getType(), edges), end, nodes);
}

static Value sumAtNodes(Adjoint &at, End end, Value edges) {
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

//===----------------------------------------------------------------------===//
// Combining values: over the edges of a node, or along an axis
//===----------------------------------------------------------------------===//

namespace {
/// What mp.reduce and mp.reduce_axis have in common: many terms become one
/// total.
class Combining {
public:
  virtual ~Combining() = default;

  /// The totals, repeated for each of their terms.
  virtual Value spread(Value totals) = 0;
  virtual Value combine(ReduceKind kind, Value terms) = 0;
  /// How many terms each total has, as a table like `totals`.
  virtual Value count(Value totals) = 0;
  /// The number of each term in the order of combination, i64.
  virtual Value positions(Type terms) = 0;
};

class OverEdges : public Combining {
public:
  OverEdges(Adjoint &adjoint, End ofEdges, RowsAttr edgeRows)
      : at(adjoint), end(ofEdges), edges(edgeRows) {}

  Value spread(Value totals) override {
    return gatherTo(at, end, totals, edges);
  }

  Value combine(ReduceKind kind, Value terms) override {
    Type type = withRows(terms.getType(), at.nodeRows->at(end, edges));
    return ReduceOp::create(*at.builder, at.getLoc(), type, kind, end, terms);
  }

  Value count(Value totals) override {
    RankedTensorType type = tableType(totals);
    auto counts = RankedTensorType::get(
        {ShapedType::kDynamic}, at.builder->getI64Type(), type.getEncoding());
    Value degree = DegreeOp::create(*at.builder, at.getLoc(), counts, end);
    degree = arith::SIToFPOp::create(
        *at.builder, at.getLoc(), counts.clone(type.getElementType()), degree);
    return perRow(degree, type);
  }

  Value positions(Type terms) override {
    auto ids = RankedTensorType::get({ShapedType::kDynamic},
                                     at.builder->getI64Type(), edges);
    return perRow(IotaOp::create(*at.builder, at.getLoc(), ids, 0),
                  cast<RankedTensorType>(terms).clone(ids.getElementType()));
  }

private:
  /// One number per row, in every place of the row.
  Value perRow(Value numbers, RankedTensorType type) {
    SmallVector<int64_t> ones(type.getRank(), 1);
    ones.front() = ShapedType::kDynamic;
    return broadcastTo(at, reshapeTo(at, numbers, type.clone(ones)), type);
  }

  Adjoint &at;
  End end;
  RowsAttr edges;
};

class AlongAxis : public Combining {
public:
  AlongAxis(Adjoint &adjoint, RankedTensorType terms, int64_t ofTerms)
      : at(adjoint), type(terms), axis(ofTerms) {}

  Value spread(Value totals) override {
    Type element = getElementTypeOrSelf(totals.getType());
    SmallVector<int64_t> kept(type.getShape());
    kept[axis] = 1;
    Value thin = reshapeTo(at, totals, type.clone(kept, element));
    return broadcastTo(at, thin, type.clone(element));
  }

  Value combine(ReduceKind kind, Value terms) override {
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + axis);
    return ReduceAxisOp::create(*at.builder, at.getLoc(),
                                tableType(terms).clone(shape), kind, terms,
                                axis);
  }

  Value count(Value totals) override {
    return at.term(totals).full(type.getDimSize(axis));
  }

  Value positions(Type terms) override {
    Type i64 = at.builder->getI64Type();
    auto line = RankedTensorType::get(featureShape(terms), i64);
    Value positions = IotaOp::create(*at.builder, at.getLoc(), line,
                                     axis - numRowAxes(terms));
    return broadcastTo(at, positions, cast<RankedTensorType>(terms).clone(i64));
  }

private:
  Adjoint &at;
  RankedTensorType type;
  int64_t axis;
};
} // namespace

/// Where a term is the extremum; NaN is when there is one.
static Term attains(Adjoint &at, Combining &over, Value terms) {
  Term x = at.term(terms), y = at.term(at.op->getResult(0));
  return (x == y.with(over.spread(y))) | x.isNaN();
}

/// A position that no term has.
static constexpr double kBehindAll = 0x1p62;

static Value ofFirstExtremum(Adjoint &at, Combining &over, Value terms) {
  Term g = at.term(over.spread(at.gradient));
  Term position = at.term(over.positions(terms.getType()));
  Term candidates =
      select(attains(at, over, terms), position, position.full(kBehindAll));
  Term first = at.term(over.combine(ReduceKind::Min, candidates));
  return select(position == first.with(over.spread(first)), g, 0.0);
}

static Value ofAllExtrema(Adjoint &at, Combining &over, Value terms) {
  Term here = attains(at, over, terms);
  Term one = at.term(terms).full(1.0);
  Term count = at.term(over.combine(ReduceKind::Sum, select(here, one, 0.0)));
  Term share = at.term(at.gradient) / count;
  return select(here, share.with(over.spread(share)), 0.0);
}

/// The product of the other terms: y / x, and for x = 0 the product of the
/// terms that are not 0, unless there is another 0.
static Value ofProduct(Adjoint &at, Combining &over, Value terms) {
  Term x = at.term(terms), y = at.term(at.op->getResult(0));
  Term isZero = x == 0.0, one = x.full(1.0);
  Term safe = select(isZero, one, x);
  Term zeroCount =
      at.term(over.combine(ReduceKind::Sum, select(isZero, one, 0.0)));
  Term rest = at.term(over.combine(ReduceKind::Prod, safe));
  Term ofZero = select(zeroCount == 1.0, rest, 0.0);
  Term others = select(isZero, x.with(over.spread(ofZero)),
                       x.with(over.spread(y)) / safe);
  return x.with(over.spread(at.gradient)) * others;
}

static void ofCombining(Adjoint &at, Combining &over, ReduceKind kind,
                        Ties ties, Value terms) {
  if (!at.wants(terms))
    return;
  switch (kind) {
  case ReduceKind::Sum:
    return at.add(terms, over.spread(at.gradient));
  case ReduceKind::Mean: {
    Term g = at.term(at.gradient);
    return at.add(terms, over.spread(g / g.with(over.count(g))));
  }
  case ReduceKind::Max:
  case ReduceKind::Min:
    return at.add(terms, ties == Ties::First ? ofFirstExtremum(at, over, terms)
                                             : ofAllExtrema(at, over, terms));
  case ReduceKind::Prod:
    return at.add(terms, ofProduct(at, over, terms));
  }
}

static void ofReduce(Adjoint &at) {
  auto op = cast<ReduceOp>(at.op);
  OverEdges over(at, op.getEnd(), rowsOf(op.getEdges()));
  ofCombining(at, over, op.getKind(), op.getTies(), op.getEdges());
}

static void ofReduceAxis(Adjoint &at) {
  auto op = cast<ReduceAxisOp>(at.op);
  AlongAxis over(at, tableType(op.getInput()), op.getAxis());
  ofCombining(at, over, op.getKind(), op.getTies(), op.getInput());
}

/// y (g - sum(y g)).
static void ofNormalising(Adjoint &at, Combining &over, Value terms) {
  if (!at.wants(terms))
    return;
  Term y = at.term(at.op->getResult(0)), g = at.term(at.gradient);
  Value sum = over.combine(ReduceKind::Sum, y * g);
  at.add(terms, y * (g - g.with(over.spread(sum))));
}

static void ofSoftmax(Adjoint &at) {
  auto op = cast<SoftmaxOp>(at.op);
  OverEdges over(at, op.getEnd(), rowsOf(op.getEdges()));
  ofNormalising(at, over, op.getEdges());
}

static void ofSoftmaxAxis(Adjoint &at) {
  auto op = cast<SoftmaxAxisOp>(at.op);
  AlongAxis over(at, tableType(op.getInput()), op.getAxis());
  ofNormalising(at, over, op.getInput());
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

static Value concat(Adjoint &at, ValueRange parts, int64_t axis) {
  RankedTensorType type = tableType(parts.front());
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 0;
  for (Value part : parts)
    shape[axis] += tableType(part).getDimSize(axis);
  return ConcatOp::create(*at.builder, at.getLoc(), type.clone(shape), parts,
                          axis);
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
// Products
//===----------------------------------------------------------------------===//

static Value transposed(Adjoint &at, Value matrix) {
  RankedTensorType type = tableType(matrix);
  return TransposeOp::create(
      *at.builder, at.getLoc(),
      type.clone({type.getDimSize(1), type.getDimSize(0)}), matrix,
      ArrayRef<int64_t>{1, 0});
}

static Value product(Adjoint &at, Value input, Value weight) {
  Type type = withLastAxis(input.getType(), tableType(weight).getDimSize(1));
  return LinearOp::create(*at.builder, at.getLoc(), type, input, weight);
}

/// Edge rows that are rows of nodes but for sums, and factors per edge.
static bool isMadeOfNodes(Value rows) {
  Operation *op = rows.getDefiningOp();
  if (isa_and_nonnull<GatherOp>(op))
    return true;
  if (ScaledRows scaled = matchScaledRows(rows))
    return isMadeOfNodes(scaled.getRows());
  auto concat = dyn_cast_or_null<ConcatOp>(op);
  if (concat &&
      static_cast<int64_t>(concat.getAxis()) != tableType(rows).getRank() - 1)
    return false;
  bool splits =
      concat ||
      isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::NegFOp>(op);
  return splits && llvm::all_of(op->getOperands(), isMadeOfNodes);
}

static Value contract(Adjoint &at, Value left, Value right) {
  auto type = RankedTensorType::get(
      {tableType(left).getShape().back(), tableType(right).getShape().back()},
      getElementTypeOrSelf(left.getType()));
  return ContractRowsOp::create(*at.builder, at.getLoc(), type, left, right);
}

/// `contract(left, right)` over rows of nodes, for a left `isMadeOfNodes`: what
/// split-linear does to a product, transposed.
static Value contractAtNodes(Adjoint &at, Value left, Value right) {
  Operation *op = left.getDefiningOp();
  if (auto gather = dyn_cast<GatherOp>(op))
    return contract(at, gather.getNodes(),
                    sumAtNodes(at, gather.getEnd(), right));
  if (ScaledRows scaled = matchScaledRows(left))
    return contractAtNodes(at, scaled.getRows(),
                           scaled.rescale(*at.builder, right));
  SmallVector<Value> parts;
  for (Value operand : op->getOperands())
    parts.push_back(contractAtNodes(at, operand, right));
  if (isa<ConcatOp>(op))
    return concat(at, parts, 0);
  IRMapping mapping;
  mapping.map(op->getOperands(), parts);
  Value result = at.builder->clone(*op, mapping)->getResult(0);
  result.setType(cast<RankedTensorType>(parts.front().getType()));
  return result;
}

/// The gradient of the weight in `left` times weight.
static Value ofWeight(Adjoint &at, Value left, Value right) {
  if (!rowsOf(left)) {
    auto asMatrix = [&](Value value) {
      RankedTensorType type = tableType(value);
      int64_t width = type.getShape().back();
      int64_t height = width ? featureSize(type) / width : 0;
      return reshapeTo(at, value, type.clone({height, width}));
    };
    return product(at, transposed(at, asMatrix(left)), asMatrix(right));
  }
  if (!onEdges(left.getType()))
    return contract(at, left, right);
  if (isMadeOfNodes(left))
    return contractAtNodes(at, left, right);
  remarkMissed(at.getLoc(), "differentiate",
               "stores two rows per edge for the gradient of the weight of a "
               "product per edge");
  return contract(at, left, right);
}

static void ofLinear(Adjoint &at) {
  auto op = cast<LinearOp>(at.op);
  if (at.wants(op.getInput()))
    at.add(op.getInput(),
           product(at, at.gradient, transposed(at, op.getWeight())));
  if (at.wants(op.getWeight()))
    at.add(op.getWeight(), ofWeight(at, op.getInput(), at.gradient));
}

static void ofContractRows(Adjoint &at) {
  auto op = cast<ContractRowsOp>(at.op);
  if (at.wants(op.getLeft()))
    at.add(op.getLeft(),
           product(at, op.getRight(), transposed(at, at.gradient)));
  if (at.wants(op.getRight()))
    at.add(op.getRight(), product(at, op.getLeft(), at.gradient));
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
  // Gone before, or made after.
  {"mp.mailbox", Refused, {}, nullptr, "run resolve-mailbox first"},
  {"mp.kernel",  Refused, {}, nullptr, "differentiate before form-kernels"},
  {"mp.yield",   Refused, {}, nullptr, "differentiate before form-kernels"},
};
// clang-format on

ArrayRef<Derivative> gossamer::rowDerivatives() { return kTable; }
