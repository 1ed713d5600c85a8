// Factors that are the same along the last axis of a row. They commute with a
// linear op, which combines the values along that axis.
#ifndef GOSSAMER_PASSES_ROWSCALE_H
#define GOSSAMER_PASSES_ROWSCALE_H

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/Builders.h"

namespace gossamer {

/// True when all values along the last axis of a row of `value` are equal.
bool isRowScale(mlir::Value value);

/// The scale `value` with `width` values along the last axis.
mlir::Value resizeRowScale(mlir::OpBuilder &builder, mlir::Value value,
                           int64_t width);

/// `value` times or over a scale: the op, and which operand is scaled; null
/// when it is no such op.
struct ScaledRows {
  mlir::Operation *op = nullptr;
  unsigned rows = 0;

  explicit operator bool() const { return op; }
  mlir::Value getRows() const { return op->getOperand(rows); }
  mlir::Value getScale() const { return op->getOperand(1 - rows); }

  /// The same op on `newRows`, with the scale at its width.
  mlir::Value rescale(mlir::OpBuilder &builder, mlir::Value newRows) const;
};
ScaledRows matchScaledRows(mlir::Value value);

/// `type` with `width` values along the last axis.
mlir::RankedTensorType withLastAxis(mlir::Type type, int64_t width);

} // namespace gossamer

#endif
