// Checks that the verifiers of several ops share. Each says on the op what is
// wrong.
#ifndef GOSSAMER_IR_VERIFY_H
#define GOSSAMER_IR_VERIFY_H

#include "gossamer/ir/MpDialect.h"

namespace gossamer::mp {

/// Its operands and results have dynamic row axes, then static feature axes.
llvm::LogicalResult verifyTables(mlir::Operation *op);

// Two tables have the same element type, rows or feature axes.
llvm::LogicalResult verifySameElements(mlir::Operation *op, mlir::Type from,
                                       mlir::Type to);
llvm::LogicalResult verifySameRows(mlir::Operation *op, mlir::Type from,
                                   mlir::Type to);
llvm::LogicalResult verifySameFeatures(mlir::Operation *op, mlir::Type from,
                                       mlir::Type to);

/// The sum of rows of a storage type is f32.
llvm::LogicalResult verifySumElements(mlir::Operation *op, mlir::Type from,
                                      mlir::Type to);

/// Storage types are widened before anything is computed.
llvm::LogicalResult verifyComputed(mlir::Operation *op, mlir::Type type);

/// `nodes` are the rows at `end` of `edges`.
llvm::LogicalResult verifyEnd(mlir::Operation *op, End end, mlir::Type nodes,
                              mlir::Type edges);

/// `axis` is one of the features; with `mailboxAxis` also that of the messages.
llvm::LogicalResult verifyAxis(mlir::Operation *op, mlir::Type type,
                               int64_t axis, bool mailboxAxis);

} // namespace gossamer::mp

#endif
