#include "gossamer/lowering/KernelFrame.h"

#include "gossamer/lowering/Combine.h"
#include "gossamer/lowering/Tiles.h"
#include "gossamer/program/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/SetVector.h"

#include <cstddef>

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static_assert(kAbiVersion == 3, "this file writes kernels of ABI version 3");

KernelFrame::KernelFrame(ImplicitLocOpBuilder &builder, func::FuncOp function,
                         mp::KernelOp kernelOp, const Plan &kernelPlan,
                         const KernelOptions &options)
    : vectorBytes(options.vectorBytes), b(builder), kernel(kernelOp),
      plan(kernelPlan),
      indexType(options.wideIndex ? b.getI64Type() : b.getI32Type()) {
  call = function.getArgument(0);
  begin = function.getArgument(1);
  end = function.getArgument(2);
  scratch = rowScratch = function.getArgument(3);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value list = field(offsetof(GsKernelCall, tables), pointer);
  unsigned count = kernel.getNumOperands() + kernel.getNumResults();
  for (unsigned i = 0; i < count; ++i)
    tables.push_back(
        LLVM::LoadOp::create(b, pointer, element(list, pointer, Value(), i)));
  Value streams = field(offsetof(GsKernelCall, stream), b.getI64Type());
  stream = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, streams,
                                 constant(b, 0));
  if (plan.scratchBytesPerDegree > 0)
    maxDegree = field(offsetof(GsKernelCall, maxDegree), b.getI64Type());
  if (!plan.usesEdges)
    return;
  // Arrays that nothing reads may be null, and a load of theirs would be dead:
  // only the fields of the call are loaded here.
  offsets = field(offsetof(GsKernelCall, offsets), pointer);
  neighbors = field(offsetof(GsKernelCall, neighbors), pointer);
  edgeIds = field(offsetof(GsKernelCall, edgeIds), pointer);
  prefetch = field(offsetof(GsKernelCall, prefetch), b.getI64Type());
  lastPosition = arith::SubIOp::create(b, index(offsets, end), constant(b, 1));
  if (plan.splitsRows)
    loadPieceFields();
}

void KernelFrame::loadPieceFields() {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()),
       i64 = b.getI64Type();
  Value null = LLVM::ZeroOp::create(b, pointer);
  auto isSet = [&](Value value) {
    return LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, value, null);
  };
  pieceFirst = field(offsetof(GsKernelCall, firstEdge), i64);
  pieceLast = field(offsetof(GsKernelCall, lastEdge), i64);
  firstPart = field(offsetof(GsKernelCall, firstPart), i64);
  endPart = field(offsetof(GsKernelCall, endPart), i64);
  pieces = field(offsetof(GsKernelCall, pieces), i64);
  partialStride = field(offsetof(GsKernelCall, partialStride), i64);
  partial = field(offsetof(GsKernelCall, partial), pointer);
  hasPartial = isSet(partial);
  Value shared = field(offsetof(GsKernelCall, rowScratch), pointer);
  rowScratch = LLVM::SelectOp::create(b, isSet(shared), shared, scratch);
}

Value KernelFrame::doesPart(int64_t part) {
  Value number = constant(b, part);
  Value begun =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, firstPart, number);
  Value ended =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, endPart, number);
  Value open = arith::XOrIOp::create(
      b, ended, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  return arith::AndIOp::create(b, begun, open);
}

Value KernelFrame::reductionRow(const Place &place) {
  Value ofRow = rowOf(place, nullptr);
  if (!plan.splitsRows)
    return ofRow;
  return LLVM::SelectOp::create(
      b, hasPartial, element(partial, b.getI8Type(), Value(), place.partial),
      ofRow);
}

Value KernelFrame::reductionOfPiece(const Place &place, Value piece) {
  Value offset = arith::MulIOp::create(b, piece, partialStride);
  return element(partial, b.getI8Type(), offset, place.partial);
}

Value KernelFrame::field(unsigned offset, Type type) {
  return LLVM::LoadOp::create(b, type,
                              element(call, b.getI8Type(), Value(), offset));
}

Value KernelFrame::element(Value pointer, Type type, Value dynamic,
                           int64_t fixed) {
  if (dynamic)
    pointer = LLVM::GEPOp::create(b, pointer.getType(), type, pointer,
                                  ArrayRef<LLVM::GEPArg>{dynamic});
  if (fixed != 0)
    pointer = LLVM::GEPOp::create(
        b, pointer.getType(), type, pointer,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(fixed)});
  return pointer;
}

/// Bools are bytes in memory.
static Type inMemory(ImplicitLocOpBuilder &b, Type element) {
  return element.isInteger(1) ? b.getI8Type() : element;
}

Value KernelFrame::load(Value pointer, Type element, int64_t lanes) {
  Type stored = inMemory(b, element);
  Value value = LLVM::LoadOp::create(b, vectorOf(stored, lanes), pointer,
                                     bytesOf(stored));
  if (stored != element)
    value = arith::TruncIOp::create(b, vectorOf(element, lanes), value);
  return value;
}

void KernelFrame::store(Value value, Value pointer) {
  Type element = getElementTypeOrSelf(value.getType());
  Type stored = inMemory(b, element);
  if (stored != element)
    value = arith::ExtUIOp::create(
        b, vectorOf(stored, lanesOf(value.getType())), value);
  LLVM::StoreOp::create(b, value, pointer, bytesOf(stored));
}

void KernelFrame::storeStreaming(Value value, Value pointer) {
  LLVM::StoreOp::create(b, value, pointer, vectorBytes, /*isVolatile=*/false,
                        /*isNonTemporal=*/true);
}

Value KernelFrame::index(Value array, Value position) {
  Value value = LLVM::LoadOp::create(
      b, indexType, element(array, indexType, position, 0), bytesOf(indexType));
  if (indexType.isInteger(64))
    return value;
  return arith::ExtSIOp::create(b, b.getI64Type(), value);
}

/// Loaded where the position is known, so that every use may share it.
Value KernelFrame::indexAt(Value array, const EdgeCursor &cursor) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(cursor.position);
  return index(array, cursor.position);
}

void KernelFrame::enterBlock(Value first, Value last) {
  firstRow = first;
  lastRow = last;
}

void KernelFrame::enterRow(Value current) {
  row = current;
  if (!plan.usesEdges)
    return;
  firstEdge = rowBegin = index(offsets, row);
  lastEdge = index(offsets, arith::AddIOp::create(b, row, constant(b, 1)));
  degree = arith::SubIOp::create(b, lastEdge, firstEdge);
  if (!plan.splitsRows)
    return;
  firstEdge = arith::MaxSIOp::create(b, firstEdge, pieceFirst);
  lastEdge = arith::MinSIOp::create(b, lastEdge, pieceLast);
}

const Place &KernelFrame::placeOf(Value leaf, bool *atNeighbor) const {
  auto known = plan.places.find(leaf);
  bool other = false;
  if (known == plan.places.end()) {
    Operation *view = leaf.getDefiningOp();
    other = isa<mp::GatherOp>(view) && !isOwnRow(cast<mp::GatherOp>(view));
    known = plan.places.find(view->getOperand(0));
  }
  if (atNeighbor)
    *atNeighbor = other;
  return known->second;
}

Value KernelFrame::rowAt(Value base, Value rowIndex, const Place &place) {
  Value offset = rowIndex;
  if (place.width != 1)
    offset = arith::MulIOp::create(b, rowIndex, constant(b, place.width));
  return element(base, inMemory(b, place.element), offset, 0);
}

Value KernelFrame::edgeIdOf(EdgeCursor &cursor) {
  if (!cursor.edgeId)
    cursor.edgeId = indexAt(edgeIds, cursor);
  return cursor.edgeId;
}

Value KernelFrame::numberOf(const Numbering &by, EdgeCursor *cursor) {
  Type stored = getElementTypeOrSelf(by.index.getType());
  Value number = load(rowOf(by.index, cursor), stored, 1);
  if (!stored.isInteger(64))
    number = arith::ExtSIOp::create(b, b.getI64Type(), number);
  Value zero = constant(b, 0);
  if (by.fromEnd) {
    Value negative =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number, zero);
    Value counted = arith::AddIOp::create(b, number, constant(b, by.count));
    number = arith::SelectOp::create(b, negative, counted, number);
  }
  // Numbers were checked before the kernel; another thread of the user's may
  // have changed them since.
  number = arith::MaxSIOp::create(b, number, zero);
  return arith::MinSIOp::create(b, number, constant(b, by.count - 1));
}

Value KernelFrame::rowNumbered(Value base, const Numbering &by,
                               Type elementType, int64_t width,
                               EdgeCursor *cursor) {
  Value offset =
      arith::MulIOp::create(b, numberOf(by, cursor), constant(b, width));
  return element(base, inMemory(b, elementType), offset, 0);
}

Value KernelFrame::rowOf(Value leaf, EdgeCursor *cursor) {
  bool atNeighbor = false;
  const Place &place = placeOf(leaf, &atNeighbor);
  Operation *op = leaf.getDefiningOp();
  if (isa_and_nonnull<mp::LookupOp>(op) && !plan.places.contains(leaf))
    return rowNumbered(tables[place.table], numberingOf(op), place.element,
                       mp::featureSize(leaf.getType()), cursor);
  if (!atNeighbor)
    return rowOf(place, cursor);
  if (!cursor->neighbor)
    cursor->neighbor = indexAt(neighbors, *cursor);
  return rowAt(tables[place.table], cursor->neighbor, place);
}

Value KernelFrame::rowOf(const Place &place, EdgeCursor *cursor) {
  switch (place.kind) {
  case Place::Kind::Table: {
    Value base = tables[place.table];
    if (place.level == Level::Shared)
      return base;
    if (place.level == Level::Row)
      return rowAt(base, row, place);
    return rowAt(base, edgeIdOf(*cursor), place);
  }
  case Place::Kind::Slot: {
    Value base = element(rowScratch, b.getI8Type(), Value(), place.offset);
    if (place.level != Level::Row || plan.blockRows == 1)
      return base;
    return rowAt(base, arith::SubIOp::create(b, row, firstRow), place);
  }
  case Place::Kind::BlockBuffer: {
    Value base = element(scratch, b.getI8Type(), Value(), place.offset);
    return rowAt(base, arith::SubIOp::create(b, cursor->position, blockBegin),
                 place);
  }
  case Place::Kind::Waiting:
    return rowAt(element(scratch, b.getI8Type(), Value(), place.offset),
                 waiting, place);
  case Place::Kind::RowBuffer: {
    Value start =
        arith::MulIOp::create(b, maxDegree, constant(b, place.perDegree));
    Value base = element(rowScratch, b.getI8Type(), start, place.offset);
    return rowAt(base, arith::SubIOp::create(b, cursor->position, rowBegin),
                 place);
  }
  }
  llvm_unreachable("all kinds are covered");
}

bool KernelFrame::isGathered(Value leaf) const {
  bool atNeighbor = false;
  const Place &place = placeOf(leaf, &atNeighbor);
  return atNeighbor ||
         (place.kind == Place::Kind::Table && place.level == Level::Edge);
}

Value KernelFrame::rowAhead(Value leaf, const EdgeCursor &cursor) {
  return rowAtPosition(
      leaf, arith::MinSIOp::create(
                b, arith::AddIOp::create(b, cursor.position, prefetch),
                lastPosition));
}

EdgesToCome KernelFrame::edgesToCome(Value first, int64_t count, int64_t most) {
  Value last = arith::AddIOp::create(b, first, constant(b, count));
  Value begun = index(offsets, arith::MinSIOp::create(b, first, end));
  Value edges = arith::SubIOp::create(
      b, index(offsets, arith::MinSIOp::create(b, last, end)), begun);
  edges = arith::MinSIOp::create(b, edges, constant(b, most));
  Value isFar = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, prefetch,
                                      constant(b, 0));
  edges = arith::SelectOp::create(b, isFar, edges, constant(b, 0));
  return {begun, edges};
}

Value KernelFrame::rowAtPosition(Value leaf, Value position) {
  bool atNeighbor = false;
  const Place &place = placeOf(leaf, &atNeighbor);
  return rowAt(tables[place.table],
               index(atNeighbor ? neighbors : edgeIds, position), place);
}

int64_t KernelFrame::gatheredBytes() const {
  int64_t bytes = 0;
  for (Value leaf : gatheredLeaves()) {
    const Place &place = placeOf(leaf);
    bytes += place.width * bytesOf(place.element);
  }
  return bytes;
}

SmallVector<Value> KernelFrame::gatheredLeaves() const {
  llvm::SmallSetVector<std::pair<unsigned, unsigned>, 4> read;
  SmallVector<Value> leaves;
  auto add = [&](Value leaf) {
    if (!isGathered(leaf))
      return;
    bool atNeighbor = false;
    const Place &place = placeOf(leaf, &atNeighbor);
    if (read.insert({place.table, atNeighbor}))
      leaves.push_back(leaf);
  };
  for (const Phase &phase : plan.phases)
    for (const Stage &stage : phase.edgeStages) {
      if (stage.kind == Stage::Kind::Linear)
        add(stage.input);
      for (const Expr *expr : {&stage.expr, &stage.right})
        for (const ExprNode &node : expr->nodes)
          if (node.kind == ExprNode::Kind::Leaf && node.perEdge)
            add(node.value);
    }
  return leaves;
}
