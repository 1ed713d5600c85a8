// What the ops of MpFeatureOps.td promise about their tables.

#include "gossamer/ir/Verify.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer::mp;

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
