// Softmax as maxima, exponentials and sums.
#ifndef GOSSAMER_PASSES_DECOMPOSESOFTMAX_H
#define GOSSAMER_PASSES_DECOMPOSESOFTMAX_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace gossamer {

/// Replaces every softmax of `function` by its definition.
void decomposeSoftmax(mlir::func::FuncOp function);

} // namespace gossamer

#endif
