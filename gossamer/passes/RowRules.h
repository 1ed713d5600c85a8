// Rules of the derivatives of mp ops, and what they are built with.
#ifndef GOSSAMER_PASSES_ROWRULES_H
#define GOSSAMER_PASSES_ROWRULES_H

#include "gossamer/ir/MpDialect.h"
#include "gossamer/passes/Derivatives.h"

namespace gossamer {

// CombiningRules.cpp
void ofReduce(Adjoint &at);
void ofReduceAxis(Adjoint &at);
void ofSoftmax(Adjoint &at);
void ofSoftmaxAxis(Adjoint &at);

// ProductRules.cpp
void ofLinear(Adjoint &at);
void ofContractRows(Adjoint &at);

inline mlir::RankedTensorType tableType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

mlir::Value reshapeTo(Adjoint &at, mlir::Value value, mlir::Type type);
mlir::Value broadcastTo(Adjoint &at, mlir::Value value, mlir::Type type);

/// The sum of the rows of edges that meet at each node.
mlir::Value sumAtNodes(Adjoint &at, mp::End end, mlir::Value edges);

/// Tables side by side.
mlir::Value concat(Adjoint &at, mlir::ValueRange parts, int64_t axis);

} // namespace gossamer

#endif
