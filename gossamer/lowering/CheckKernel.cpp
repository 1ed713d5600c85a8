#include "gossamer/lowering/CheckKernel.h"

#include "gossamer/lowering/Expr.h"
#include "gossamer/lowering/Residency.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

/// Ops that take numbers of any format, because they compute nothing.
static bool movesOnly(Operation *op) {
  return isView(op) || isa<mp::ConcatOp, mp::FillIsolatedOp, arith::ExtFOp,
                           arith::TruncFOp, arith::SelectOp>(op);
}

static LogicalResult checkOp(Operation *op) {
  if (op->getNumResults() != 1 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return op->emitOpError("has no lowering inside a kernel");
  for (Value value : llvm::concat<Value>(op->getOperands(), op->getResults()))
    if (mp::featureSize(value.getType()) == 0)
      return op->emitOpError("has a table without features, ")
             << value.getType() << ", which is not compiled";
  if (!movesOnly(op) && llvm::any_of(op->getOperandTypes(), mp::isStorageOnly))
    return op->emitOpError("does not compute in ")
           << getElementTypeOrSelf(op->getOperand(0).getType())
           << "; widen its operands with arith.extf";
  if (isTotal(op) &&
      !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return op->emitOpError("sums ")
           << op->getOperand(0).getType()
           << " over all rows; such a sum is float32 or float64";
  if (isView(op) || needsOwnStage(op) ||
      isa<mp::FillOp, mp::DegreeOp, mp::IotaOp, mp::UniformOp,
          mp::FillIsolatedOp>(op))
    return success();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue())
               ? success()
               : constant.emitOpError("is not the same value everywhere; pass "
                                      "it as an argument");
  if (!op->hasTrait<OpTrait::Elementwise>())
    return op->emitOpError("has no lowering inside a kernel");
  return success();
}

LogicalResult lowering::checkKernel(mp::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator())
    if (failed(checkOp(&op)))
      return failure();
  for (Value value : body.getTerminator()->getOperands()) {
    bool shared = levelOf(value) == Level::Shared;
    if (shared == kernel.getRows().has_value() &&
        !isTotal(value.getDefiningOp()))
      return kernel.emitOpError("cannot write ")
             << value.getType()
             << ": a kernel writes tables of its own rows, and totals";
  }
  return success();
}
