// Multiply sums of messages, not messages, by a matrix.
//
//   before: %y = mp.linear %m, %W         after: %s = mp.reduce sum dst %m
//           %h = mp.reduce sum dst %y            %h = mp.linear %s, %W
//
// Also mean, and through what is linear around the product: a factor per edge
// goes to the input of the product, the terms of a sum are reduced apart. max
// and min do not commute.
//
// Equal in real arithmetic; reassociates. It pays: N rows are multiplied, not
// E. A product that hoist-before-gather has moved to the nodes is multiplied N
// times either way; it moves behind the reduction when its input is narrower
// than its output, because E rows are gathered, and with `join` also when both
// are as wide: the kernel that reduces then multiplies its rows, and the table
// of products need not be. Before differentiate that does not pay: the gradient
// of the weight would need the sums, which nobody saves.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowScale.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

namespace gossamer {
#define GEN_PASS_DEF_COMMUTELINEAR
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static Operation *asSum(Value value) {
  Operation *op = value.getDefiningOp();
  bool sum = isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op);
  return sum && value.hasOneUse() ? op : nullptr;
}

static ScaledRows asScaled(Value value) {
  return value.hasOneUse() ? matchScaledRows(value) : ScaledRows();
}

/// The product that gives `value`, but for factors, when nothing else reads it.
static LinearOp onlyProduct(Value value) {
  if (!value.hasOneUse())
    return {};
  if (ScaledRows scaled = matchScaledRows(value))
    return onlyProduct(scaled.getRows());
  return value.getDefiningOp<LinearOp>();
}

namespace {
/// Rewrites one reduction.
class Commuting {
public:
  Commuting(ReduceOp op, bool atEqualWidth)
      : join(atEqualWidth), reduce(op), builder(op), loc(op.getLoc()) {}

  /// True when a product can leave the terms `value` of a sum.
  bool gains(Value value) const;
  /// The reduction of the rows `value`.
  Value reduced(Value value);

private:
  LinearOp movableLinear(Value value) const;
  /// `value`, whose product is taken off, without it; scales stay.
  Value withoutProduct(Value value, LinearOp &linear);
  Value plainReduce(Value value);

  const bool join;
  ReduceOp reduce;
  OpBuilder builder;
  Location loc;
};
} // namespace

/// The product that gives `value`, when nothing else reads it: on edges, or on
/// nodes and gathered as rows that it is better gathered without.
LinearOp Commuting::movableLinear(Value value) const {
  auto gather = value.getDefiningOp<GatherOp>();
  if (!value.hasOneUse() || !gather)
    return value.hasOneUse() ? value.getDefiningOp<LinearOp>() : LinearOp();
  LinearOp linear = onlyProduct(gather.getNodes());
  if (!linear)
    return {};
  int64_t before = featureSize(linear.getInput().getType());
  int64_t after = featureSize(linear.getType());
  return before < after || (join && before == after) ? linear : LinearOp();
}

bool Commuting::gains(Value value) const {
  if (movableLinear(value))
    return true;
  if (ScaledRows scaled = asScaled(value))
    return gains(scaled.getRows());
  Operation *sum = asSum(value);
  return sum && (gains(sum->getOperand(0)) || gains(sum->getOperand(1)));
}

Value Commuting::plainReduce(Value value) {
  Type type = withRows(value.getType(), rowsOf(reduce.getNodes()));
  auto rows = ReduceOp::create(builder, loc, type, reduce.getKind(),
                               reduce.getEnd(), value);
  setStoredFormat(rows, storedFormat(reduce));
  return rows;
}

/// The input of `linear` with the factors that are around it in `value`.
static Value scaledInput(OpBuilder &builder, Value value, LinearOp linear) {
  if (ScaledRows scaled = matchScaledRows(value))
    return scaled.rescale(builder,
                          scaledInput(builder, scaled.getRows(), linear));
  return linear.getInput();
}

Value Commuting::withoutProduct(Value value, LinearOp &linear) {
  if (ScaledRows scaled = asScaled(value)) {
    Value rows = withoutProduct(scaled.getRows(), linear);
    return rows ? scaled.rescale(builder, rows) : Value();
  }
  linear = movableLinear(value);
  if (!linear)
    return {};
  auto gather = value.getDefiningOp<GatherOp>();
  if (!gather)
    return linear.getInput();
  Value nodes = scaledInput(builder, gather.getNodes(), linear);
  return GatherOp::create(builder, gather.getLoc(),
                          withRows(nodes.getType(), rowsOf(value)),
                          gather.getEnd(), nodes);
}

Value Commuting::reduced(Value value) {
  if (!gains(value))
    return plainReduce(value);
  if (Operation *sum = asSum(value)) {
    IRMapping mapping;
    for (Value term : sum->getOperands())
      mapping.map(term, reduced(term));
    Value result = builder.clone(*sum, mapping)->getResult(0);
    result.setType(mapping.lookup(sum->getOperand(0)).getType());
    return result;
  }
  LinearOp linear;
  Value input = withoutProduct(value, linear);
  if (!input) // a factor around a sum of products
    return plainReduce(value);
  remarkApplied(linear.getLoc(), "commute-linear",
                "multiplies once per node, after the reduction",
                /*reassociates=*/true);
  Value rows = plainReduce(input);
  Type type =
      withLastAxis(rows.getType(), featureShape(linear.getType()).back());
  auto product = LinearOp::create(builder, linear.getLoc(), type, rows,
                                  linear.getWeight());
  setStoredFormat(product, storedFormat(linear));
  return product;
}

static bool isLinearInTerms(ReduceOp reduce) {
  return reduce.getKind() == ReduceKind::Sum ||
         reduce.getKind() == ReduceKind::Mean;
}

namespace {
struct CommuteLinear : gossamer::impl::CommuteLinearBase<CommuteLinear> {
  using CommuteLinearBase::CommuteLinearBase;

  void runOnOperation() override {
    SmallVector<ReduceOp> reduces;
    getOperation().walk([&](ReduceOp reduce) { reduces.push_back(reduce); });
    for (ReduceOp reduce : reduces) {
      Commuting commuting(reduce, join);
      if (!isLinearInTerms(reduce) || !commuting.gains(reduce.getEdges()))
        continue;
      Value result = commuting.reduced(reduce.getEdges());
      reduce.getNodes().replaceAllUsesWith(result);
      reduce.erase();
    }
    eraseDeadOps(getOperation());
  }
};
} // namespace
