// What the ops of MpRowOps.td promise about their tables.

#include "gossamer/ir/Verify.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer::mp;

LogicalResult GatherOp::verify() {
  Type nodes = getNodes().getType(), edges = getEdges().getType();
  if (failed(verifyTables(*this)) ||
      failed(verifyEnd(*this, getEnd(), nodes, edges)) ||
      failed(verifySameElements(*this, nodes, edges)))
    return failure();
  return verifySameFeatures(*this, nodes, edges);
}

LogicalResult ReduceOp::verify() {
  Type nodes = getNodes().getType(), edges = getEdges().getType();
  if (failed(verifyTables(*this)) ||
      failed(verifyComputed(*this, getEdges().getType())) ||
      failed(verifyEnd(*this, getEnd(), nodes, edges)) ||
      failed(verifySameElements(*this, nodes, edges)))
    return failure();
  return verifySameFeatures(*this, nodes, edges);
}

LogicalResult SoftmaxOp::verify() {
  if (failed(verifyTables(*this)) ||
      failed(verifyComputed(*this, getEdges().getType())))
    return failure();
  if (!onEdges(getEdges().getType()))
    return emitOpError("expects edge rows, but found ") << getEdges().getType();
  return success();
}

LogicalResult MailboxOp::verify() {
  Type edges = getEdges().getType(), slots = getSlots().getType();
  if (failed(verifyTables(*this)))
    return failure();
  RowsAttr to = rowsOf(slots);
  if (!onEdges(edges) || !to || to.getKind() != RowKind::Mailbox ||
      to.getGraph() != rowsOf(edges).getGraph())
    return emitOpError("turns edge rows into the mailbox of the same graph, "
                       "but has ")
           << edges << " and " << slots;
  if (failed(verifySameElements(*this, edges, slots)))
    return failure();
  return verifySameFeatures(*this, edges, slots);
}

static bool onNodes(Type type) {
  return numRowAxes(type) == 1 && !onEdges(type);
}

/// `nodes` are node rows, and edges can have them at `end`.
static LogicalResult verifyCounts(Operation *op, End end, Type nodes) {
  RowsAttr rows = rowsOf(nodes);
  if (!rows || rows.getKind() == RowKind::Edge ||
      rows.getKind() == RowKind::Mailbox)
    return op->emitOpError("expects node rows, but found ") << nodes;
  RowKind other = end == End::Src ? RowKind::Dst : RowKind::Src;
  if (rows.getKind() == other)
    return op->emitOpError("counts edges whose ")
           << stringifyEnd(end) << " is a row, but has rows of kind "
           << stringifyRowKind(other);
  return success();
}

LogicalResult DegreeOp::verify() {
  Type result = getResult().getType();
  if (failed(verifyTables(*this)) ||
      failed(verifyCounts(*this, getEnd(), result)))
    return failure();
  if (!featureShape(result).empty())
    return emitOpError("has one number per node, but found ") << result;
  return success();
}

LogicalResult FillIsolatedOp::verify() {
  Type nodes = getNodes().getType(), result = getResult().getType();
  if (nodes != result)
    return emitOpError("keeps the type, but has ")
           << nodes << " and " << result;
  if (getValue().getType() != getElementTypeOrSelf(nodes))
    return emitOpError("fills with ") << getValue().getType() << " a table of "
                                      << getElementTypeOrSelf(nodes);
  if (failed(verifyTables(*this)))
    return failure();
  return verifyCounts(*this, getEnd(), nodes);
}

/// Rows as they are, in another set of rows.
static LogicalResult verifyOtherRows(Operation *op, Type from, Type to) {
  if (failed(verifyTables(op)) || failed(verifySameElements(op, from, to)))
    return failure();
  if (!rowsOf(from) || !rowsOf(to))
    return op->emitOpError("expects tables with rows, but has ")
           << from << " and " << to;
  return verifySameFeatures(op, from, to);
}

LogicalResult PrefixOp::verify() {
  return verifyOtherRows(*this, getRows().getType(), getResult().getType());
}

LogicalResult PadRowsOp::verify() {
  return verifyOtherRows(*this, getRows().getType(), getResult().getType());
}

/// `table[index[r]]` is a row like those of `rows`.
static LogicalResult verifyLookup(Operation *op, Type table, Type index,
                                  Type rows) {
  if (failed(verifyTables(op)) || failed(verifySameElements(op, table, rows)) ||
      failed(verifySameRows(op, index, rows)))
    return failure();
  Type number = getElementTypeOrSelf(index);
  if (!rowsOf(index) || !featureShape(index).empty() ||
      !(number.isSignlessInteger(32) || number.isSignlessInteger(64)))
    return op->emitOpError("expects one number of i32 or i64 per row, but "
                           "found ")
           << index;
  if (rowsOf(table) || featureShape(table).empty())
    return op->emitOpError("expects a table without rows of at least one axis, "
                           "but found ")
           << table;
  if (featureShape(table).drop_front() != featureShape(rows))
    return op->emitOpError("expects rows of ")
           << table << ", but found " << rows;
  return success();
}

LogicalResult LookupOp::verify() {
  return verifyLookup(*this, getTable().getType(), getIndex().getType(),
                      getResult().getType());
}

LogicalResult SumByOp::verify() {
  if (failed(verifyComputed(*this, getRows().getType())))
    return failure();
  return verifyLookup(*this, getResult().getType(), getIndex().getType(),
                      getRows().getType());
}

LogicalResult SumRowsOp::verify() {
  Type from = getRows().getType(), to = getResult().getType();
  if (failed(verifyTables(*this)) || failed(verifySumElements(*this, from, to)))
    return failure();
  if (!onNodes(from) || rowsOf(to))
    return emitOpError("turns a table of nodes into one row, but has ")
           << from << " and " << to;
  return verifySameFeatures(*this, from, to);
}

LogicalResult ContractRowsOp::verify() {
  Type left = getLeft().getType(), right = getRight().getType();
  auto result = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, left, right)) ||
      failed(verifySumElements(*this, left, result)) ||
      failed(verifySameRows(*this, left, right)))
    return failure();
  ArrayRef<int64_t> l = featureShape(left), r = featureShape(right);
  if (numRowAxes(left) != 1 || l.empty() || r.empty() ||
      l.drop_back() != r.drop_back())
    return emitOpError("expects rows that differ in the last axis only, but "
                       "has ")
           << left << " and " << right;
  if (rowsOf(result) ||
      result.getShape() != ArrayRef<int64_t>({l.back(), r.back()}))
    return emitOpError("expects a matrix of ")
           << l.back() << " by " << r.back() << ", but found " << result;
  return success();
}
