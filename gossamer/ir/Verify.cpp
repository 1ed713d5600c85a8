#include "gossamer/ir/Verify.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Leading row axes are dynamic, feature axes static.
static LogicalResult verifyTable(Operation *op, Type type) {
  auto table = cast<RankedTensorType>(type);
  if (table.getEncoding() && !rowsOf(type))
    return op->emitOpError("expects #mp.rows as encoding, but found ")
           << table.getEncoding();
  int64_t rowAxes = numRowAxes(type);
  if (table.getRank() < rowAxes)
    return op->emitOpError("expects a row axis in ") << type;
  for (auto [axis, dim] : llvm::enumerate(table.getShape())) {
    bool dynamic = ShapedType::isDynamic(dim);
    if (dynamic && static_cast<int64_t>(axis) >= rowAxes)
      return op->emitOpError("expects static feature axes, but found ") << type;
    if (!dynamic && static_cast<int64_t>(axis) < rowAxes)
      return op->emitOpError("expects dynamic row axes, but found ") << type;
  }
  return success();
}

LogicalResult mp::verifyTables(Operation *op) {
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                llvm::to_vector(op->getResultTypes())))
    if (failed(verifyTable(op, type)))
      return failure();
  return success();
}

LogicalResult mp::verifySameElements(Operation *op, Type from, Type to) {
  if (getElementTypeOrSelf(from) != getElementTypeOrSelf(to))
    return op->emitOpError("keeps the element type, but has ")
           << getElementTypeOrSelf(from) << " and " << getElementTypeOrSelf(to);
  return success();
}

LogicalResult mp::verifySumElements(Operation *op, Type from, Type to) {
  if (isStorageOnly(from) && getElementTypeOrSelf(to).isF32())
    return success();
  if (isStorageOnly(to))
    return op->emitOpError("sums in f32, but has ") << to;
  return verifySameElements(op, from, to);
}

LogicalResult mp::verifyComputed(Operation *op, Type type) {
  if (isStorageOnly(type))
    return op->emitOpError("does not compute in ")
           << getElementTypeOrSelf(type)
           << "; widen its operands with arith.extf";
  return success();
}

LogicalResult mp::verifySameRows(Operation *op, Type from, Type to) {
  if (rowsOf(from) != rowsOf(to))
    return op->emitOpError("keeps the rows, but has ") << from << " and " << to;
  return success();
}

LogicalResult mp::verifySameFeatures(Operation *op, Type from, Type to) {
  if (featureShape(from) != featureShape(to))
    return op->emitOpError("keeps the feature axes, but has ")
           << from << " and " << to;
  return success();
}

LogicalResult mp::verifyEnd(Operation *op, End end, Type nodes, Type edges) {
  RowsAttr edgeRows = rowsOf(edges), rows = rowsOf(nodes);
  if (!edgeRows || edgeRows.getKind() != RowKind::Edge)
    return op->emitOpError("expects edge rows, but found ") << edges;
  if (!rows || rows.getGraph() != edgeRows.getGraph())
    return op->emitOpError("expects node rows of the graph of the edges, but "
                           "found ")
           << nodes;
  RowKind atEnd = end == End::Src ? RowKind::Src : RowKind::Dst;
  if (rows.getKind() != RowKind::Node && rows.getKind() != atEnd)
    return op->emitOpError("expects rows of kind node or ")
           << stringifyRowKind(atEnd) << ", but found "
           << stringifyRowKind(rows.getKind());
  return success();
}

LogicalResult mp::verifyAxis(Operation *op, Type type, int64_t axis,
                             bool mailboxAxis) {
  int64_t rank = cast<RankedTensorType>(type).getRank();
  int64_t first = numRowAxes(type);
  if (mailboxAxis && first == 2)
    first = 1;
  if (axis < first || axis >= rank)
    return op->emitOpError("expects an axis from ")
           << first << " to " << rank - 1 << ", but found " << axis;
  return success();
}
