// Masks over the gradient of a maximum.
#ifndef GOSSAMER_PASSES_SAVEDMASKS_H
#define GOSSAMER_PASSES_SAVEDMASKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace gossamer {

/// Moves masks that would be saved into the positions of maxima and minima, in
/// a function that computes results and, from block arguments `gradients` on,
/// gradients.
void foldMasksIntoPositions(mlir::func::FuncOp function, unsigned gradients);

} // namespace gossamer

#endif
