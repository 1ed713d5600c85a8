// In which format the result of an op may be stored.
//
// The discardable attribute `mp.stored_as = bf16` (or f16) on an op says: torch
// has this result as a tensor of that format, so rounding it where it is stored
// costs no accuracy that the user counts on. In registers it stays f32. An op
// that loses the attribute is stored in f32, which is always right.
#ifndef GOSSAMER_PASSES_STOREDFORMAT_H
#define GOSSAMER_PASSES_STOREDFORMAT_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace gossamer {

/// The element type that the result of `op` may be stored in; null when it is
/// its own. `op` may be null.
inline mlir::Type storedFormat(mlir::Operation *op) {
  auto format =
      op ? op->getAttrOfType<mlir::TypeAttr>("mp.stored_as") : nullptr;
  return format ? format.getValue() : mlir::Type();
}

/// Allows it; nothing for null.
inline void setStoredFormat(mlir::Operation *op, mlir::Type format) {
  if (format)
    op->setAttr("mp.stored_as", mlir::TypeAttr::get(format));
}

/// `type` with elements of `format`.
inline mlir::RankedTensorType inFormat(mlir::Type type, mlir::Type format) {
  return llvm::cast<mlir::RankedTensorType>(type).clone(format);
}

} // namespace gossamer

#endif
