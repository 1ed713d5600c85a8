// Apply what keeps order to a maximum, not to each message.
//
//   before: %m = relu(gather src %q + gather dst %t)
//           %y = mp.reduce max dst %m
//   after:  %s = mp.reduce max dst (gather src %q)
//           %y = relu(%s + %t), 0 on nodes without edges
//
// A function that never decreases takes the maximum to the maximum. What is
// added per node, positive factors, relu and its like, exp and tanh leave the
// reduction; a sign leaves it and makes a minimum of it. Likewise min.
//
// Equal in real arithmetic, and in floating point but for infinite messages.
// The result may be stored in 16 bits where the reduction may; an extremum of
// rounded rows is one of them.
// Where rounding makes messages of different rows equal, another one of them
// gets the gradient. On a node without edges the reduction gives 0, and so does
// what replaces it. It pays: edges read and compute less, and in the backward
// the gradient of what left the reduction needs no edges at all.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace gossamer {
#define GEN_PASS_DEF_COMMUTEMAX
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static std::optional<double> constantOf(Value value) {
  auto fill = value.getDefiningOp<FillOp>();
  auto number = fill ? dyn_cast<FloatAttr>(fill.getValueAttr()) : FloatAttr();
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

namespace {
/// One arm of a function with a kink: x, a x with a >= 0, or a constant.
struct Arm {
  double slope = 0, constant = 0;
  Operation *product = nullptr;

  double at(double x) const { return slope * x + constant; }
};

/// A function of one value that keeps order, or turns it around.
struct Layer {
  SmallVector<Operation *> ops; // operands first
  Value inner;
  bool flips = false;
};

/// Takes what keeps order out of one reduction.
class Commuting {
public:
  explicit Commuting(ReduceOp op) : reduce(op), builder(op), loc(op.getLoc()) {}

  /// False when nothing can leave.
  bool run();

private:
  bool isConstantPerNode(Value value);
  std::optional<Layer> layerOf(Value value);
  Value onNodes(const Layer &layer, Value inner);
  Value zeroWhereIsolated(Value nodes);

  ReduceOp reduce;
  OpBuilder builder;
  Location loc;
  Residencies residencies;
};
} // namespace

static std::optional<Arm> armOf(Value value, Value input) {
  if (value == input)
    return Arm{1.0, 0.0, nullptr};
  if (std::optional<double> number = constantOf(value))
    return Arm{0.0, *number, nullptr};
  auto product = value.getDefiningOp<arith::MulFOp>();
  if (!product || !product->hasOneUse())
    return std::nullopt;
  bool first = product.getLhs() == input;
  if (!first && product.getRhs() != input)
    return std::nullopt;
  std::optional<double> slope =
      constantOf(first ? product.getRhs() : product.getLhs());
  if (!slope || !(*slope >= 0))
    return std::nullopt;
  return Arm{*slope, 0.0, product};
}

/// Whether a comparison holds above its bound or below it; never for NaN.
static std::optional<bool> holdsAbove(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OGT:
  case arith::CmpFPredicate::OGE:
    return true;
  case arith::CmpFPredicate::OLT:
  case arith::CmpFPredicate::OLE:
    return false;
  default:
    return std::nullopt;
  }
}

/// relu, leaky_relu, clamps: a comparison that chooses between two arms, each
/// of which keeps order, the upper one from where the lower one ends.
static std::optional<Layer> kinkOf(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto compare =
      select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : nullptr;
  if (!compare || !compare->hasOneUse())
    return std::nullopt;
  Value input = compare.getLhs();
  std::optional<double> bound = constantOf(compare.getRhs());
  std::optional<bool> above = holdsAbove(compare.getPredicate());
  std::optional<Arm> taken = armOf(select.getTrueValue(), input);
  std::optional<Arm> other = armOf(select.getFalseValue(), input);
  if (!bound || !above || !taken || !other)
    return std::nullopt;
  const Arm &upper = *above ? *taken : *other;
  const Arm &lower = *above ? *other : *taken;
  // NaN takes the other arm, and has to stay NaN there.
  if (other->slope == 0 || lower.at(*bound) > upper.at(*bound))
    return std::nullopt;
  Layer layer{{compare}, input};
  for (Operation *product : {taken->product, other->product})
    if (product)
      layer.ops.push_back(product);
  layer.ops.push_back(select);
  return layer;
}

bool Commuting::isConstantPerNode(Value value) {
  Residency home = residencies.of(value);
  return !home.rows ||
         home == Residency{rowsOf(reduce.getNodes()), reduce.getEnd()};
}

static bool isPositive(Value value) {
  std::optional<double> number = constantOf(value);
  return number && *number > 0;
}

/// The outermost function that gives `value`, when it can leave the reduction.
std::optional<Layer> Commuting::layerOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isConstantPerNode(value))
    return std::nullopt;
  if (isa<arith::NegFOp>(op))
    return Layer{{op}, op->getOperand(0), /*flips=*/true};
  if (isa<math::ExpOp, math::TanhOp>(op))
    return Layer{{op}, op->getOperand(0)};
  if (isa<arith::SelectOp>(op))
    return kinkOf(value);
  if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(op))
    return std::nullopt;
  bool sum = isa<arith::AddFOp, arith::SubFOp>(op);
  auto stays = [&](Value v) {
    return sum ? isConstantPerNode(v) : isPositive(v);
  };
  if (stays(op->getOperand(1)))
    return Layer{{op}, op->getOperand(0)};
  if (!isa<arith::DivFOp>(op) && stays(op->getOperand(0)))
    return Layer{{op}, op->getOperand(1), isa<arith::SubFOp>(op)};
  return std::nullopt;
}

/// The function that left, of the rows `inner` of nodes.
Value Commuting::onNodes(const Layer &layer, Value inner) {
  RowsAttr rows = rowsOf(reduce.getNodes());
  IRMapping mapping;
  mapping.map(layer.inner, inner);
  for (Operation *op : layer.ops) {
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand, residencies.build(builder, operand, rows));
    Operation *clone = cloneOnRows(builder, op, mapping, rows);
    mapping.map(op->getResult(0), clone->getResult(0));
  }
  return mapping.lookup(layer.ops.back()->getResult(0));
}

/// Not fill_isolated: that tells differentiate that the user never computed
/// these rows, while here every node had what its edges read.
Value Commuting::zeroWhereIsolated(Value nodes) {
  auto type = cast<RankedTensorType>(nodes.getType());
  auto counts = RankedTensorType::get({ShapedType::kDynamic},
                                      builder.getI64Type(), type.getEncoding());
  Value degree = DegreeOp::create(builder, loc, counts, reduce.getEnd());
  Value none =
      FillOp::create(builder, loc, counts, builder.getI64IntegerAttr(0));
  Value isolated = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         degree, none);
  SmallVector<int64_t> ones(type.getRank(), 1);
  ones.front() = ShapedType::kDynamic;
  auto flags = cast<RankedTensorType>(type.clone(builder.getI1Type()));
  isolated = builder.createOrFold<ReshapeOp>(loc, flags.clone(ones), isolated);
  isolated = builder.createOrFold<BroadcastOp>(loc, flags, isolated);
  Value zero = FillOp::create(builder, loc, type,
                              builder.getFloatAttr(type.getElementType(), 0.0));
  return arith::SelectOp::create(builder, loc, isolated, zero, nodes);
}

bool Commuting::run() {
  SmallVector<Layer> layers; // the outermost first
  Value value = reduce.getEdges();
  SmallVector<Operation *> readers = {reduce};
  bool flipped = false;
  auto isRead = [&](Operation *user) {
    return llvm::is_contained(readers, user);
  };
  while (llvm::all_of(value.getUsers(), isRead)) {
    std::optional<Layer> layer = layerOf(value);
    if (!layer)
      break;
    flipped ^= layer->flips;
    value = layer->inner;
    readers = layer->ops;
    layers.push_back(std::move(*layer));
  }
  if (layers.empty())
    return false;
  remarkApplied(loc, "commute-max", "computed once per node, of the extremum",
                /*reassociates=*/true);
  bool max = (reduce.getKind() == ReduceKind::Max) != flipped;
  Value result = ReduceOp::create(builder, loc, reduce.getType(),
                                  max ? ReduceKind::Max : ReduceKind::Min,
                                  reduce.getEnd(), value, reduce.getTies());
  setStoredFormat(result.getDefiningOp(), storedFormat(value.getDefiningOp()));
  for (const Layer &layer : llvm::reverse(layers))
    result = onNodes(layer, result);
  result = zeroWhereIsolated(result);
  setStoredFormat(result.getDefiningOp(), storedFormat(reduce));
  reduce.getNodes().replaceAllUsesWith(result);
  return true;
}

namespace {
struct CommuteMax : gossamer::impl::CommuteMaxBase<CommuteMax> {
  void runOnOperation() override {
    SmallVector<ReduceOp> reduces;
    getOperation().walk([&](ReduceOp reduce) {
      bool extremum = reduce.getKind() == ReduceKind::Max ||
                      reduce.getKind() == ReduceKind::Min;
      if (extremum && isa<FloatType>(getElementTypeOrSelf(reduce.getType())))
        reduces.push_back(reduce);
    });
    for (ReduceOp reduce : reduces)
      Commuting(reduce).run();
    eraseDeadOps(getOperation());
  }
};
} // namespace
