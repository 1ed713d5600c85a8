// Give each part of a linear op's input its own linear op.
//
//   before: %c = concat(gather src %x, gather dst %y, %e)
//           %z = mp.linear %c, %W
//   after:  %z = linear(gather src %x, W[0:a]) + linear(gather dst %y, W[a:b])
//              + linear(%e, W[b:])
//
// So do sums, differences and rows with a factor per edge: the product goes to
// the parts. hoist-before-gather then multiplies rows of nodes, not of edges.
//
// Equal in real arithmetic; reassociates the sum over the input features. For
// W (x_v - x_u) that loses digits when both are large beside their difference.
//
// It pays when a product is left that can be hoisted: one part of a concat
// (the others get narrower), all parts of a sum (or as many products per edge
// are left as before). Else nothing changes.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowScale.h"
#include "gossamer/passes/RowWise.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace gossamer {
#define GEN_PASS_DEF_SPLITLINEAR
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static ConcatOp concatOfFeatures(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (concat && static_cast<int64_t>(concat.getAxis()) ==
                    cast<ShapedType>(value.getType()).getRank() - 1)
    return concat;
  return {};
}

/// A copy that leaves the last axis as it is: what it does to other axes can be
/// done to the product.
static Operation *copyOfOtherAxes(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<BroadcastOp, ReshapeOp>(op))
    return nullptr;
  Type from = op->getOperand(0).getType();
  bool sameLastAxis =
      rowsOf(from) && !featureShape(from).empty() &&
      featureShape(from).back() == featureShape(value.getType()).back();
  return sameLastAxis ? op : nullptr;
}

namespace {
/// Splits one linear op.
class Splitting {
public:
  explicit Splitting(LinearOp op) : linear(op), builder(op), loc(op.getLoc()) {}

  /// False when the op should stay as it is.
  bool run();

private:
  bool gains(Value input);
  bool inferGains(Value input);
  Value product(Value input, Value weight);
  Value buildProduct(Value input, Value weight);
  Value productOfParts(ConcatOp concat, Value weight);

  LinearOp linear;
  OpBuilder builder;
  Location loc;
  Residencies residencies;
  // What several parts share is looked at, and multiplied, once.
  DenseMap<Value, bool> gaining;
  DenseMap<std::pair<Value, Value>, Value> products;
};
} // namespace

/// True when the product with `input` gets cheaper by splitting and hoisting.
bool Splitting::gains(Value input) {
  if (auto known = gaining.find(input); known != gaining.end())
    return known->second;
  bool result = inferGains(input);
  gaining[input] = result;
  return result;
}

bool Splitting::inferGains(Value input) {
  if (residencies.isLower(input))
    return true;
  if (ConcatOp concat = concatOfFeatures(input))
    return llvm::any_of(concat.getInputs(), [&](Value v) { return gains(v); });
  if (Operation *copy = copyOfOtherAxes(input))
    return gains(copy->getOperand(0));
  if (ScaledRows scaled = matchScaledRows(input))
    return gains(scaled.getRows());
  Operation *op = input.getDefiningOp();
  return isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::NegFOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value v) { return gains(v); });
}

Value Splitting::productOfParts(ConcatOp concat, Value weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  Value sum;
  int64_t offset = 0;
  for (Value part : concat.getInputs()) {
    int64_t size = featureShape(part.getType()).back();
    auto rows = RankedTensorType::get({size, type.getDimSize(1)},
                                      type.getElementType());
    Value slice = builder.createOrFold<SliceOp>(loc, rows, weight, /*axis=*/0,
                                                offset, /*stride=*/1);
    Value term = product(part, slice);
    sum = sum ? arith::AddFOp::create(builder, loc, sum, term) : term;
    offset += size;
  }
  return sum;
}

Value Splitting::product(Value input, Value weight) {
  if (Value known = products.lookup({input, weight}))
    return known;
  Value result = buildProduct(input, weight);
  products[{input, weight}] = result;
  return result;
}

Value Splitting::buildProduct(Value input, Value weight) {
  int64_t width = cast<ShapedType>(weight.getType()).getDimSize(1);
  Type type = withLastAxis(input.getType(), width);
  if (residencies.isLower(input) || !gains(input)) {
    auto term = LinearOp::create(builder, loc, type, input, weight);
    setStoredFormat(term, storedFormat(linear));
    return term;
  }
  if (ConcatOp concat = concatOfFeatures(input))
    return productOfParts(concat, weight);
  if (ScaledRows scaled = matchScaledRows(input))
    return scaled.rescale(builder, product(scaled.getRows(), weight));
  Operation *op = input.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, product(operand, weight));
  Value result = builder.clone(*op, mapping)->getResult(0);
  result.setType(cast<RankedTensorType>(type));
  return result;
}

bool Splitting::run() {
  Value input = linear.getInput();
  if (!onEdges(input.getType()) || residencies.isLower(input) || !gains(input))
    return false;
  remarkApplied(loc, "split-linear", "multiplies the parts of its input apart",
                /*reassociates=*/true);
  linear.getResult().replaceAllUsesWith(product(input, linear.getWeight()));
  return true;
}

namespace {
struct SplitLinear : gossamer::impl::SplitLinearBase<SplitLinear> {
  void runOnOperation() override {
    SmallVector<LinearOp> linears;
    getOperation().walk([&](LinearOp linear) { linears.push_back(linear); });
    for (LinearOp linear : linears)
      if (Splitting(linear).run())
        linear.erase();
    eraseDeadOps(getOperation());
  }
};
} // namespace
