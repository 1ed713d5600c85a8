#include "gossamer/passes/RowScale.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

RankedTensorType gossamer::withLastAxis(Type type, int64_t width) {
  auto table = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(table.getShape());
  shape.back() = width;
  return table.clone(shape);
}

bool gossamer::isRowScale(Value value) {
  if (value.getDefiningOp<FillOp>())
    return true;
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || featureShape(value.getType()).empty())
    return false;
  ArrayRef<int64_t> from = featureShape(broadcast.getInput().getType());
  return from.empty() || from.back() == 1;
}

Value gossamer::resizeRowScale(OpBuilder &builder, Value value, int64_t width) {
  assert(isRowScale(value) && "differs along the last axis");
  Type type = withLastAxis(value.getType(), width);
  if (auto fill = value.getDefiningOp<FillOp>())
    return FillOp::create(builder, fill.getLoc(), type, fill.getValueAttr());
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return builder.createOrFold<BroadcastOp>(broadcast.getLoc(), type,
                                           broadcast.getInput());
}

Value ScaledRows::rescale(OpBuilder &builder, Value newRows) const {
  int64_t width = cast<ShapedType>(newRows.getType()).getShape().back();
  Value scale = resizeRowScale(builder, getScale(), width);
  Value operands[2];
  operands[rows] = newRows;
  operands[1 - rows] = scale;
  if (isa<arith::DivFOp>(op))
    return arith::DivFOp::create(builder, op->getLoc(), operands[0],
                                 operands[1]);
  return arith::MulFOp::create(builder, op->getLoc(), operands[0], operands[1]);
}

ScaledRows gossamer::matchScaledRows(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(op))
    return {};
  if (isRowScale(op->getOperand(1)))
    return {op, 0};
  if (isa<arith::MulFOp>(op) && isRowScale(op->getOperand(0)))
    return {op, 1};
  return {};
}
