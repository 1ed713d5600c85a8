// Which rows of nodes the user computed.
//
// A reducer runs for nodes with messages alone, and a function of edges for
// edges. Here such code runs for all rows of nodes. In the rows that nobody
// looks at, a value and its slope may be infinite. The value is replaced there,
// or not read. But the gradient is 0 there, and 0 times an infinite slope is
// NaN.
#ifndef GOSSAMER_PASSES_ROWSINUSE_H
#define GOSSAMER_PASSES_ROWSINUSE_H

#include "gossamer/ir/MpDialect.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace gossamer {

/// The rows of nodes that have edges at an end.
struct NodesWithEdges {
  mp::RowsAttr nodes;
  mp::End end;

  bool operator==(const NodesWithEdges &) const = default;
};

/// The rows of the values of a block that are used, as they are now.
class RowsInUse {
public:
  explicit RowsInUse(mlir::Block &block);

  /// The only rows that reach a result, because a fill_isolated stands behind
  /// all uses, perhaps under another name of the nodes.
  std::optional<NodesWithEdges> shown(mlir::Value value) const;

  /// The rows to keep of the gradient that `op` gives to an operand, with 0 in
  /// the others; none: nothing is to be done, or a gradient that is made of
  /// this one will be masked.
  std::optional<NodesWithEdges> keptFor(mlir::Operation *op,
                                        mlir::Value operand) const;

private:
  using Rows = llvm::DenseMap<mlir::Value, NodesWithEdges>;

  std::optional<NodesWithEdges> shownBy(mlir::OpOperand &use) const;
  bool isReadAt(mlir::OpOperand &use, mp::End end) const;
  bool hasFiniteSlope(mlir::Operation *op) const;
  void findShown(mlir::Value value);
  void findRead(mlir::Operation *op);

  Rows shownRows;
  /// Of ops that the user wrote on edges: the only rows that edges read. The
  /// gradient of others is 0 until it meets an infinite slope.
  Rows readRows;
};

} // namespace gossamer

#endif
