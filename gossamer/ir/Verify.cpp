// What each op of the mp dialect promises about its tables.

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
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

static LogicalResult verifyTables(Operation *op) {
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                llvm::to_vector(op->getResultTypes())))
    if (failed(verifyTable(op, type)))
      return failure();
  return success();
}

static LogicalResult verifySameElements(Operation *op, Type from, Type to) {
  if (getElementTypeOrSelf(from) != getElementTypeOrSelf(to))
    return op->emitOpError("keeps the element type, but has ")
           << getElementTypeOrSelf(from) << " and " << getElementTypeOrSelf(to);
  return success();
}

/// The sum of rows of a storage type is f32.
static LogicalResult verifySumElements(Operation *op, Type from, Type to) {
  if (isStorageOnly(from) && getElementTypeOrSelf(to).isF32())
    return success();
  if (isStorageOnly(to))
    return op->emitOpError("sums in f32, but has ") << to;
  return verifySameElements(op, from, to);
}

/// Storage types are widened before anything is computed.
static LogicalResult verifyComputed(Operation *op, Type type) {
  if (isStorageOnly(type))
    return op->emitOpError("does not compute in ")
           << getElementTypeOrSelf(type)
           << "; widen its operands with arith.extf";
  return success();
}

static LogicalResult verifySameRows(Operation *op, Type from, Type to) {
  if (rowsOf(from) != rowsOf(to))
    return op->emitOpError("keeps the rows, but has ") << from << " and " << to;
  return success();
}

static LogicalResult verifySameFeatures(Operation *op, Type from, Type to) {
  if (featureShape(from) != featureShape(to))
    return op->emitOpError("keeps the feature axes, but has ")
           << from << " and " << to;
  return success();
}

/// `nodes` are the rows at `end` of `edges`.
static LogicalResult verifyEnd(Operation *op, End end, Type nodes, Type edges) {
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

static LogicalResult verifyAxis(Operation *op, Type type, int64_t axis,
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

LogicalResult PrefixOp::verify() {
  Type from = getRows().getType(), to = getResult().getType();
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, from, to)))
    return failure();
  if (!rowsOf(from) || !rowsOf(to))
    return emitOpError("expects tables with rows, but has ")
           << from << " and " << to;
  return verifySameFeatures(*this, from, to);
}

LogicalResult PadRowsOp::verify() {
  Type from = getRows().getType(), to = getResult().getType();
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, from, to)))
    return failure();
  if (!rowsOf(from) || !rowsOf(to))
    return emitOpError("expects tables with rows, but has ")
           << from << " and " << to;
  return verifySameFeatures(*this, from, to);
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

LogicalResult IotaOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyTables(*this)))
    return failure();
  Type element = type.getElementType();
  if (!element.isSignlessInteger(64) &&
      !(element.isSignlessInteger(32) && onEdges(type)))
    return emitOpError("counts in i64, or edges in i32, but has ") << type;
  int64_t axis = getAxis(), axes = rowsOf(type) ? 1 : type.getRank();
  if (axis < 0 || axis >= axes || (rowsOf(type) && type.getRank() != 1))
    return emitOpError("counts rows, or along one axis of a table without "
                       "rows, but has axis ")
           << axis << " of " << type;
  return success();
}

LogicalResult UniformOp::verify() {
  Type type = getResult().getType();
  if (failed(verifyTables(*this)))
    return failure();
  if (!getElementTypeOrSelf(type).isF32() &&
      !getElementTypeOrSelf(type).isF64())
    return emitOpError("draws f32 or f64, but has ") << type;
  if (numRowAxes(type) > 1)
    return emitOpError("draws rows of edges or nodes, but has ")
           << type << "; draw on edges, and make a mailbox of them";
  return success();
}

LogicalResult FillOp::verify() {
  if (getValue().getType() != getElementTypeOrSelf(getResult().getType()))
    return emitOpError("fills with ")
           << getValue().getType() << " a table of "
           << getElementTypeOrSelf(getResult().getType());
  return verifyTables(*this);
}

LogicalResult BroadcastOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, from, to)))
    return failure();
  RowsAttr fromRows = rowsOf(from), toRows = rowsOf(to);
  ArrayRef<int64_t> have = featureShape(from), want = featureShape(to);
  bool intoMailbox = fromRows && toRows && fromRows != toRows &&
                     toRows.getKind() == RowKind::Mailbox &&
                     fromRows.getGraph() == toRows.getGraph() &&
                     (fromRows.getKind() == RowKind::Node ||
                      fromRows.getKind() == RowKind::Dst);
  if (intoMailbox) {
    if (have.empty() || have.front() != 1)
      return emitOpError("expects axis 1 of size 1 where the messages come, "
                         "but found ")
             << from;
    have = have.drop_front();
  } else if (fromRows && fromRows != toRows) {
    return emitOpError("keeps the rows, but has ") << from << " and " << to;
  }
  if (have.size() > want.size() || (fromRows && have.size() != want.size()))
    return emitOpError("cannot repeat ") << from << " to " << to;
  for (auto [h, w] : llvm::zip(have, want.take_back(have.size())))
    if (h != w && h != 1)
      return emitOpError("repeats axes of size 1 only, but has ")
             << from << " and " << to;
  return success();
}

LogicalResult ReshapeOp::verify() {
  Type from = getInput().getType(), to = getResult().getType();
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, from, to)) ||
      failed(verifySameRows(*this, from, to)))
    return failure();
  if (featureSize(from) != featureSize(to))
    return emitOpError("keeps the number of features, but has ")
           << featureSize(from) << " and " << featureSize(to);
  return success();
}

LogicalResult TransposeOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, from, to)) ||
      failed(verifySameRows(*this, from, to)))
    return failure();
  ArrayRef<int64_t> permutation = getPermutation();
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, from.getRank())) ||
      to.getRank() != from.getRank())
    return emitOpError("expects a permutation of all ")
           << from.getRank() << " axes";
  for (auto [axis, source] : llvm::enumerate(permutation)) {
    if (static_cast<int64_t>(axis) < numRowAxes(from) &&
        source != static_cast<int64_t>(axis))
      return emitOpError("keeps row axes in place");
    if (to.getDimSize(axis) != from.getDimSize(source))
      return emitOpError("expects axis ")
             << axis << " of size " << from.getDimSize(source) << ", but found "
             << to.getDimSize(axis);
  }
  return success();
}

LogicalResult SliceOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  int64_t axis = getAxis();
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, from, to)) ||
      failed(verifySameRows(*this, from, to)) ||
      failed(verifyAxis(*this, from, axis, /*mailboxAxis=*/false)))
    return failure();
  if (to.getRank() != from.getRank())
    return emitOpError("keeps the number of axes, but has ")
           << from.getRank() << " and " << to.getRank();
  for (int64_t i = 0; i < from.getRank(); ++i)
    if (i != axis && from.getDimSize(i) != to.getDimSize(i))
      return emitOpError("keeps axis ")
             << i << ", but has " << from.getDimSize(i) << " and "
             << to.getDimSize(i);
  int64_t count = to.getDimSize(axis);
  int64_t offset = getOffset(), stride = getStride();
  if (offset < 0 || stride < 1 ||
      (count > 0 && offset + (count - 1) * stride >= from.getDimSize(axis)))
    return emitOpError("reads past the end of axis ")
           << axis << " of size " << from.getDimSize(axis);
  return success();
}

LogicalResult ConcatOp::verify() {
  if (failed(verifyTables(*this)))
    return failure();
  if (getInputs().empty())
    return emitOpError("expects at least one table");
  auto to = cast<RankedTensorType>(getResult().getType());
  int64_t axis = getAxis(), size = 0;
  if (failed(verifyAxis(*this, to, axis, /*mailboxAxis=*/false)))
    return failure();
  for (Value input : getInputs()) {
    auto from = cast<RankedTensorType>(input.getType());
    if (failed(verifySameElements(*this, from, to)) ||
        failed(verifySameRows(*this, from, to)))
      return failure();
    if (from.getRank() != to.getRank())
      return emitOpError("keeps the number of axes, but has ")
             << from << " and " << to;
    for (int64_t i = 0; i < to.getRank(); ++i)
      if (i != axis && from.getDimSize(i) != to.getDimSize(i))
        return emitOpError("keeps axis ")
               << i << ", but has " << from << " and " << to;
    size += from.getDimSize(axis);
  }
  if (size != to.getDimSize(axis))
    return emitOpError("expects ") << size << " along axis " << axis
                                   << ", but found " << to.getDimSize(axis);
  return success();
}

LogicalResult ReduceAxisOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  int64_t axis = getAxis();
  if (failed(verifyTables(*this)) ||
      failed(verifyComputed(*this, getInput().getType())) ||
      failed(verifySameElements(*this, from, to)) ||
      failed(verifyAxis(*this, from, axis, /*mailboxAxis=*/true)))
    return failure();
  SmallVector<int64_t> shape(from.getShape());
  shape.erase(shape.begin() + axis);
  if (to.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("drops axis ")
           << axis << ", but has " << from << " and " << to;
  bool overMessages = axis < numRowAxes(from);
  RowsAttr fromRows = rowsOf(from), toRows = rowsOf(to);
  if (!overMessages)
    return verifySameRows(*this, from, to);
  if (!toRows || toRows.getGraph() != fromRows.getGraph() ||
      (toRows.getKind() != RowKind::Node && toRows.getKind() != RowKind::Dst))
    return emitOpError("turns a mailbox into rows of its destinations, but "
                       "found ")
           << to;
  return success();
}

LogicalResult SoftmaxAxisOp::verify() {
  if (failed(verifyTables(*this)) ||
      failed(verifyComputed(*this, getInput().getType())))
    return failure();
  return verifyAxis(*this, getInput().getType(), getAxis(),
                    /*mailboxAxis=*/true);
}

LogicalResult LinearOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto weight = cast<RankedTensorType>(getWeight().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyTables(*this)) ||
      failed(verifySameElements(*this, input, weight)) ||
      failed(verifySameElements(*this, input, result)) ||
      failed(verifySameRows(*this, input, result)))
    return failure();
  if (rowsOf(weight) || weight.getRank() != 2)
    return emitOpError("expects a matrix without rows as weight, but found ")
           << weight;
  if (input.getRank() == numRowAxes(input) ||
      input.getShape().back() != weight.getDimSize(0))
    return emitOpError("expects ")
           << weight.getDimSize(0) << " features, but found " << input;
  SmallVector<int64_t> shape(input.getShape());
  shape.back() = weight.getDimSize(1);
  if (result.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError("expects ")
           << weight.getDimSize(1) << " features in the result, but found "
           << result;
  return success();
}
