#include "gossamer/passes/NodeRows.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

NodeRows::NodeRows(func::FuncOp function) {
  auto note = [&](Type type) {
    RowsAttr rows = rowsOf(type);
    if (rows && rows.getKind() == RowKind::Node)
      homogeneous.insert(rows.getGraph());
  };
  llvm::for_each(function.getArgumentTypes(), note);
  llvm::for_each(function.getResultTypes(), note);
  function.walk(
      [&](Operation *op) { llvm::for_each(op->getResultTypes(), note); });
}

RowsAttr NodeRows::at(End end, RowsAttr edges) const {
  return nodeRows(edges, end, homogeneous.contains(edges.getGraph()));
}

int64_t gossamer::bytesPerRow(Type table) {
  unsigned bits = getElementTypeOrSelf(table).getIntOrFloatBitWidth();
  return featureSize(table) * std::max<int64_t>(bits / 8, 1);
}

void gossamer::eraseDeadOps(func::FuncOp function) {
  for (Block &block : function.getBody())
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
}
