// Sum each part of a row of an edge apart.
//
//   before: %c = mp.concat gather src %x, gather dst %y axis 2
//           %s = mp.reduce_axis sum (%c * broadcast %a) axis 2
//   after:  %s = reduce_axis sum (gather src %x * broadcast %a[0:m])
//              + reduce_axis sum (gather dst %y * broadcast %a[m:n])
//
// This is how attention scores are written: the dot product of both ends with
// one vector. hoist-before-gather then computes each sum per node, and edges
// read one number of an end where they read its whole row.
//
// Equal in real arithmetic; reassociates the sum. Where torch rounds the sum to
// 16 bits, so may its parts be. It pays when a sum is left
// that is known on the nodes of one end; else nothing changes.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace gossamer {
#define GEN_PASS_DEF_SPLITSUM
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// The concat along `axis` that `value` is made from, element by element; null
/// when there is none.
static ConcatOp concatBehind(Value value, int64_t axis) {
  Operation *op = value.getDefiningOp();
  if (auto concat = dyn_cast_or_null<ConcatOp>(op))
    return static_cast<int64_t>(concat.getAxis()) == axis ? concat : ConcatOp();
  if (!op || !op->hasTrait<OpTrait::Elementwise>())
    return {};
  for (Value operand : op->getOperands())
    if (ConcatOp concat = concatBehind(operand, axis))
      return concat;
  return {};
}

namespace {
/// Splits one sum.
class Splitting {
public:
  explicit Splitting(ReduceAxisOp op)
      : sum(op), builder(op), loc(op.getLoc()), axis(op.getAxis()) {}

  /// False when the op should stay as it is.
  bool run();

private:
  Type partType(Value value) const;
  Value part(Value value);
  Value buildPart(Value value);
  Value partOfBroadcast(BroadcastOp broadcast);
  Value slice(Value value, int64_t along);

  ReduceAxisOp sum;
  OpBuilder builder;
  Location loc;
  int64_t axis;
  // The part that is built.
  int64_t offset = 0, size = 0;
  DenseMap<Value, Value> parts;
};
} // namespace

/// `value`'s type with the size of the part.
Type Splitting::partType(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = size;
  return type.clone(shape);
}

Value Splitting::slice(Value value, int64_t along) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[along] = size;
  return builder.createOrFold<SliceOp>(loc, type.clone(shape), value, along,
                                       offset, /*stride=*/1);
}

Value Splitting::part(Value value) {
  if (Value known = parts.lookup(value))
    return known;
  Value result = buildPart(value);
  parts[value] = result;
  return result;
}

/// A broadcast of the part that its input has, or of all of an input that is
/// the same along the axis.
Value Splitting::partOfBroadcast(BroadcastOp broadcast) {
  Value input = broadcast.getInput();
  auto from = cast<RankedTensorType>(input.getType());
  // Axes are matched from the last one.
  int64_t along =
      axis - cast<ShapedType>(broadcast.getType()).getRank() + from.getRank();
  if (along >= numRowAxes(from) && from.getDimSize(along) != 1)
    input = slice(input, along);
  return builder.createOrFold<BroadcastOp>(loc, partType(broadcast), input);
}

Value Splitting::buildPart(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto concat = dyn_cast_or_null<ConcatOp>(op);
      concat && static_cast<int64_t>(concat.getAxis()) == axis) {
    int64_t first = 0;
    for (Value input : concat.getInputs()) {
      int64_t width = cast<ShapedType>(input.getType()).getDimSize(axis);
      if (first == offset && width == size)
        return input;
      first += width;
    }
  }
  if (auto fill = dyn_cast_or_null<FillOp>(op))
    return FillOp::create(builder, fill.getLoc(), partType(value),
                          fill.getValueAttr());
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
    return partOfBroadcast(broadcast);
  if (!op || !op->hasTrait<OpTrait::Elementwise>())
    return slice(value, axis);
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, part(operand));
  Value result = builder.clone(*op, mapping)->getResult(0);
  result.setType(cast<RankedTensorType>(partType(value)));
  return result;
}

bool Splitting::run() {
  Value input = sum.getInput();
  ConcatOp concat = concatBehind(input, axis);
  if (sum.getKind() != ReduceKind::Sum || !onEdges(input.getType()) || !concat)
    return false;
  Residencies residencies;
  if (residencies.isLower(input))
    return false;
  SmallVector<Value> terms;
  for (Value of : concat.getInputs()) {
    offset += size;
    size = cast<ShapedType>(of.getType()).getDimSize(axis);
    parts.clear();
    terms.push_back(ReduceAxisOp::create(builder, loc, sum.getType(),
                                         ReduceKind::Sum, part(input), axis));
    setStoredFormat(terms.back().getDefiningOp(), storedFormat(sum));
  }
  if (llvm::none_of(terms, [&](Value v) { return residencies.isLower(v); }))
    return false;
  Value total = terms.front();
  for (Value term : ArrayRef(terms).drop_front()) {
    total = arith::AddFOp::create(builder, loc, total, term);
    setStoredFormat(total.getDefiningOp(), storedFormat(sum));
  }
  remarkApplied(loc, "split-sum", "sums the parts of its input apart",
                /*reassociates=*/true);
  sum.getResult().replaceAllUsesWith(total);
  return true;
}

namespace {
struct SplitSum : gossamer::impl::SplitSumBase<SplitSum> {
  void runOnOperation() override {
    SmallVector<ReduceAxisOp> sums;
    getOperation().walk([&](ReduceAxisOp sum) {
      if (isa<FloatType>(getElementTypeOrSelf(sum.getType())))
        sums.push_back(sum);
    });
    for (ReduceAxisOp sum : sums)
      Splitting(sum).run();
    // What was split, and parts that did not pay.
    eraseDeadOps(getOperation());
  }
};
} // namespace
