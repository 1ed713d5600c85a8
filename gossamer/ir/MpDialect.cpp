// The mp dialect: registration and row types.

#include "gossamer/ir/MpDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gossamer::mp;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "gossamer/ir/MpDialect.cpp.inc"
#include "gossamer/ir/MpEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "gossamer/ir/MpAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "gossamer/ir/MpOps.cpp.inc"
#pragma GCC diagnostic pop

void MpDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "gossamer/ir/MpAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "gossamer/ir/MpOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Row types
//===----------------------------------------------------------------------===//

RowsAttr gossamer::mp::rowsOf(Type type) {
  auto table = dyn_cast<RankedTensorType>(type);
  return table ? dyn_cast_or_null<RowsAttr>(table.getEncoding()) : RowsAttr();
}

bool gossamer::mp::onEdges(Type type) {
  RowsAttr rows = rowsOf(type);
  return rows && rows.getKind() == RowKind::Edge;
}

int64_t gossamer::mp::numRowAxes(Type type) {
  RowsAttr rows = rowsOf(type);
  if (!rows)
    return 0;
  return rows.getKind() == RowKind::Mailbox ? 2 : 1;
}

ArrayRef<int64_t> gossamer::mp::featureShape(Type type) {
  return cast<RankedTensorType>(type).getShape().drop_front(numRowAxes(type));
}

int64_t gossamer::mp::featureSize(Type type) {
  int64_t size = 1;
  for (int64_t dim : featureShape(type))
    size *= dim;
  return size;
}

bool gossamer::mp::isStorageOnly(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isBF16() || element.isF16();
}

RankedTensorType gossamer::mp::withRows(Type type, RowsAttr rows) {
  SmallVector<int64_t> shape;
  if (rows)
    shape.assign(rows.getKind() == RowKind::Mailbox ? 2 : 1,
                 ShapedType::kDynamic);
  llvm::append_range(shape, featureShape(type));
  return RankedTensorType::get(shape, getElementTypeOrSelf(type), rows);
}

RowsAttr gossamer::mp::nodeRows(RowsAttr edges, End end, bool homogeneous) {
  RowKind kind = homogeneous       ? RowKind::Node
                 : end == End::Src ? RowKind::Src
                                   : RowKind::Dst;
  return RowsAttr::get(edges.getContext(), edges.getGraph(), kind,
                       edges.getRelations());
}

bool gossamer::mp::isRowWise(Operation *op) {
  if (op->getNumResults() != 1 || !isPure(op))
    return false;
  if (op->hasTrait<OpTrait::Elementwise>())
    return true;
  if (!op->hasTrait<RowWise>())
    return false;
  if (auto reduce = dyn_cast<ReduceAxisOp>(op))
    return rowsOf(reduce.getInput()) == rowsOf(reduce.getResult());
  if (auto softmax = dyn_cast<SoftmaxAxisOp>(op))
    return static_cast<int64_t>(softmax.getAxis()) >=
           numRowAxes(softmax.getInput().getType());
  return true;
}
