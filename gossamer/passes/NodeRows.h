// Which rows the ends of edges have in one function, and small helpers.
#ifndef GOSSAMER_PASSES_NODEROWS_H
#define GOSSAMER_PASSES_NODEROWS_H

#include "gossamer/ir/MpDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallSet.h"

namespace gossamer {

/// A graph has node rows of kind `node`, or of kinds src and dst. Edge tables
/// do not say which; the node tables of the function do.
class NodeRows {
public:
  explicit NodeRows(mlir::func::FuncOp function);

  /// The node rows at `end` of `edges`.
  mp::RowsAttr at(mp::End end, mp::RowsAttr edges) const;

private:
  llvm::SmallSet<int64_t, 4> homogeneous;
};

/// Memory of one row of a table.
int64_t bytesPerRow(mlir::Type table);

/// Erases ops of `function` without effects and without uses.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace gossamer

#endif
