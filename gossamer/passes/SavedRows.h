// Which rows the forward keeps for the backward.
#ifndef GOSSAMER_PASSES_SAVEDROWS_H
#define GOSSAMER_PASSES_SAVEDROWS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace gossamer {

/// The values of a function that depend on block arguments from `gradients` on.
llvm::DenseSet<mlir::Value> madeFromGradients(mlir::func::FuncOp function,
                                              unsigned gradients);

/// The values to save in a function that computes results and, from block
/// arguments `gradients` on, gradients. In order of computation.
///
/// Rows of edges are never saved: they are computed again, from rows of nodes.
/// Of those, arguments are there already, and what is elementwise in them is
/// computed again too. A reduction or a product is saved, or what is
/// elementwise in reductions and products when it is less. So are rows that are
/// narrow beside all that they are made from: scores of attention, norms.
/// Others are not when all that they are made from is saved.
llvm::SmallVector<mlir::Value> chooseSavedRows(mlir::func::FuncOp function,
                                               unsigned gradients);

} // namespace gossamer

#endif
