// Derivatives of products.
//
// The gradient of a weight is a sum over rows. Rows of edges that are made of
// rows of nodes are first summed to nodes: no product is summed over edges.
// What exists on edges only is summed by the kernel that computes it.

#include "gossamer/passes/RowRules.h"
#include "gossamer/passes/RowScale.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

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

/// Kernels multiply by vectors of the right factor, so that is the wider one.
static Value contractOnEdges(Adjoint &at, Value left, Value right) {
  if (tableType(left).getShape().back() <= tableType(right).getShape().back())
    return contract(at, left, right);
  return transposed(at, contract(at, right, left));
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
  return contractOnEdges(at, left, right);
}

void gossamer::ofLinear(Adjoint &at) {
  auto op = cast<LinearOp>(at.op);
  if (at.wants(op.getInput()))
    at.add(op.getInput(),
           product(at, at.gradient, transposed(at, op.getWeight())));
  if (at.wants(op.getWeight()))
    at.add(op.getWeight(), ofWeight(at, op.getInput(), at.gradient));
}

void gossamer::ofContractRows(Adjoint &at) {
  auto op = cast<ContractRowsOp>(at.op);
  if (at.wants(op.getLeft()))
    at.add(op.getLeft(),
           product(at, op.getRight(), transposed(at, at.gradient)));
  if (at.wants(op.getRight()))
    at.add(op.getRight(), product(at, op.getLeft(), at.gradient));
}
