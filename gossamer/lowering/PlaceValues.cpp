// Where the values of a kernel are: what it reads and writes in tables, what a
// row or a sweep keeps for later in scratch. Values that nothing keeps have no
// place: they are computed where they are read.

#include "gossamer/lowering/PlaceValues.h"

#include "gossamer/lowering/OuterFactors.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

int64_t lowering::bytesOf(Type element) {
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

namespace {

/// Buffers of one block together stay well inside the second-level cache.
constexpr int64_t kBlockBytes = 128 * 1024;
constexpr int64_t kMinBlockEdges = 32;

/// The slots of a block of rows stay in the first-level cache, if a block of a
/// few rows does.
constexpr int64_t kBlockRowBytes = 32 * 1024;
constexpr int64_t kMinBlockRows = 16;

/// Sums of at most so many bytes are made in runs of rows: a run stays in the
/// second-level cache.
constexpr int64_t kMaxRunBytes = 128 * 1024;

/// The queues of a sum of outer products by number take as much as the sum, or
/// so many bytes where that is small, and at most so many.
constexpr int64_t kFewQueueBytes = 256 * 1024;
constexpr int64_t kMaxQueueBytes = 8 * 1024 * 1024;

class Placer {
public:
  Placer(mp::KernelOp toPlace, const Residency &keeps, Plan &into)
      : kernel(toPlace), residency(keeps), plan(into) {}

  void run();

private:
  void placeTables();
  void chooseBlockRows();
  bool crossesProduct(Value value);
  void placeKept(Value value);
  void placeTotal(Operation *op);
  void placeSum(Operation *op, Total &total);
  bool placeOuter(mp::SumByOp op, Total &total);
  void placePartial(Value reduction);
  Place slot(Type element, int64_t width);
  void finishBuffers();

  mp::KernelOp kernel;
  const Residency &residency;
  Plan &plan;
  int64_t blockBytesPerEdge = 0;
  unsigned rowBuffers = 0;
  SmallVector<Value> blockBuffers;
};

} // namespace

Place lowering::placeFor(Value value, Place::Kind kind) {
  Place place;
  place.kind = kind;
  place.level = levelOf(value);
  place.width = mp::featureSize(value.getType());
  place.element = getElementTypeOrSelf(value.getType());
  return place;
}

void Placer::placeTables() {
  Block &body = kernel.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    Place place = placeFor(argument, Place::Kind::Table);
    place.table = argument.getArgNumber();
    plan.places[argument] = place;
  }
  // A kept value that is a result lives in its table.
  for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
    Value value = throughReshapes(operand.get());
    bool inTable = residency.isKept(value) && levelOf(value) != Level::Edge;
    if (!inTable || plan.places.contains(value))
      continue;
    Place place = placeFor(value, Place::Kind::Table);
    place.table = body.getNumArguments() + operand.getOperandNumber();
    place.writeOnly = value.hasOneUse() && operand.get().hasOneUse();
    plan.places[value] = place;
  }
}

/// A product of rows of nodes.
static bool isRowProduct(Operation &op) {
  return isa<mp::LinearOp>(op) && levelOf(op.getResult(0)) == Level::Row;
}

/// True when some sweep computes the edge value `value` and a sweep after a
/// product reads it: its buffer has room for the edges of one row.
bool Placer::crossesProduct(Value value) {
  unsigned first = residency.phaseOf(value), last = residency.lastSweep(value);
  return llvm::any_of(kernel.getBody().front(), [&](Operation &op) {
    if (!isRowProduct(op) || !residency.isUsed(op.getResult(0)))
      return false;
    unsigned phase = residency.phaseOf(op.getResult(0));
    return first < phase && phase <= last;
  });
}

void Placer::chooseBlockRows() {
  int64_t bytesPerRow = 0;
  bool any = false;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    Value value = op.getResult(0);
    if (!residency.isUsed(value) || !residency.isKept(value) || isTotal(&op))
      continue;
    if (levelOf(value) == Level::Edge && crossesProduct(value))
      return;
    any |= isRowProduct(op);
    if (levelOf(value) == Level::Row && !plan.places.contains(value))
      bytesPerRow += mp::featureSize(value.getType()) *
                     bytesOf(getElementTypeOrSelf(value.getType()));
  }
  if (!any)
    return;
  plan.blockRows = kMaxBlockRows;
  while (plan.blockRows > kMinBlockRows &&
         plan.blockRows * bytesPerRow > kBlockRowBytes)
    plan.blockRows /= 2;
}

/// A new place in scratch.
Place Placer::slot(Type element, int64_t width) {
  Place place;
  place.offset = plan.scratchBytes;
  place.width = width;
  place.element = element;
  plan.scratchBytes +=
      llvm::alignTo(width * bytesOf(element), 64) + kBufferPadding;
  return place;
}

void Placer::placeKept(Value value) {
  if (plan.places.contains(value))
    return;
  Place place = placeFor(value, Place::Kind::Slot);
  int64_t bytes = place.width * bytesOf(place.element);
  bool acrossSweeps = residency.lastSweep(value) > residency.phaseOf(value);
  if (place.level == Level::Row) {
    place.offset = slot(place.element, place.width * plan.blockRows).offset;
  } else if (place.level == Level::Shared) {
    place.offset = slot(place.element, place.width).offset;
  } else if (acrossSweeps || place.width <= kNarrow) {
    place.kind = Place::Kind::RowBuffer;
    place.perDegree = plan.scratchBytesPerDegree;
    place.offset = kBufferPadding * rowBuffers++;
    plan.scratchBytesPerDegree += bytes;
  } else {
    place.kind = Place::Kind::BlockBuffer;
    blockBytesPerEdge += bytes;
    blockBuffers.push_back(value);
  }
  plan.places[value] = place;
}

/// Where the reduction of a piece of a row is, until all are combined.
void Placer::placePartial(Value reduction) {
  Place &place = plan.places[reduction];
  place.partial = plan.partialBytes;
  plan.partialBytes +=
      llvm::alignTo(place.width * bytesOf(place.element), 64) + kBufferPadding;
}

void Placer::placeTotal(Operation *op) {
  Total total;
  total.table = plan.places.at(op->getResult(0));
  if (auto contract = dyn_cast<mp::ContractRowsOp>(op)) {
    Type left = contract.getLeft().getType();
    total.isOuter = true;
    total.depth = mp::featureShape(left).back();
    total.pairs = mp::featureSize(left) / total.depth;
    total.maxWaiting = std::max<int64_t>(1, kWaitingPairs / total.pairs);
    auto waitingRows = [&](Value factor) {
      Place place = placeFor(factor, Place::Kind::Waiting);
      place.offset = slot(place.element, place.width * total.maxWaiting).offset;
      return place;
    };
    total.left = waitingRows(contract.getLeft());
    total.right = waitingRows(contract.getRight());
    total.waiting = slot(IntegerType::get(op->getContext(), 64), 1);
  } else {
    auto byNumber = dyn_cast<mp::SumByOp>(op);
    if (!byNumber || !placeOuter(byNumber, total))
      placeSum(op, total);
  }
  plan.totalOf[op] = plan.totals.size();
  plan.totals.push_back(total);
}

void Placer::placeSum(Operation *op, Total &total) {
  int64_t bytes = total.table.width * bytesOf(total.table.element);
  total.inRuns = bytes <= kMaxRunBytes;
  total.run =
      total.inRuns ? slot(total.table.element, total.table.width) : total.table;
  // As many rows as a run has of its own, or it would cost more than them.
  if (isa<mp::SumByOp>(op) && total.inRuns)
    plan.runRows = std::max<int64_t>(plan.runRows,
                                     llvm::PowerOf2Ceil(numberingOf(op).count));
}

/// Queues for the factors of outer products; false when rows are none, or when
/// there are so many numbers that hardly two factors would meet in a queue.
bool Placer::placeOuter(mp::SumByOp sum, Total &total) {
  Value rows = sum.getRows();
  Target target{0, rowMajor(mp::featureShape(rows.getType()))};
  auto isLeaf = [&](Value value) { return plan.places.contains(value); };
  auto built = buildExpr(rows, target, isLeaf, /*resultsMayBeLeaves=*/true,
                         /*mergeAxes=*/true);
  auto *expr = std::get_if<Expr>(&built);
  std::optional<OuterFactors> factors;
  if (expr)
    factors = outerFactors(*expr);
  if (!factors)
    return false;
  Type element = total.table.element;
  int64_t left = factors->left.size(), right = factors->right.size();
  int64_t numbers = std::max<int64_t>(1, numberingOf(sum).count);
  int64_t tableBytes = total.table.width * bytesOf(element);
  int64_t affordable = std::clamp(tableBytes, kFewQueueBytes, kMaxQueueBytes);
  total.maxWaiting =
      std::min(kWaitingPairs,
               affordable / ((left + right) * bytesOf(element) * numbers));
  if (total.maxWaiting < 2)
    return false;
  total.isOuter = true;
  total.numbers = numbers;
  total.depth = left;
  auto queues = [&](int64_t width) {
    Place place = slot(element, width * total.maxWaiting * numbers);
    place.kind = Place::Kind::Waiting;
    place.level = levelOf(rows);
    place.width = width;
    return place;
  };
  total.left = queues(left);
  total.right = queues(right);
  total.waiting = slot(IntegerType::get(sum.getContext(), 64), numbers);
  return true;
}

/// Block buffers follow the slots, row buffers follow them.
void Placer::finishBuffers() {
  plan.blockEdges = kMaxBlockEdges;
  while (plan.blockEdges > kMinBlockEdges &&
         plan.blockEdges * blockBytesPerEdge > kBlockBytes)
    plan.blockEdges /= 2;
  for (Value value : blockBuffers) {
    Place &place = plan.places[value];
    place.offset = plan.scratchBytes;
    int64_t bytes = place.width * bytesOf(place.element) * plan.blockEdges;
    plan.scratchBytes += llvm::alignTo(bytes, 64) + kBufferPadding;
  }
  for (auto &[value, place] : plan.places)
    if (place.kind == Place::Kind::RowBuffer)
      place.offset += plan.scratchBytes;
  plan.scratchBytes += kBufferPadding * rowBuffers;
}

void Placer::run() {
  placeTables();
  chooseBlockRows();
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    Value value = op.getResult(0);
    if (!residency.isKept(value))
      continue;
    if (isTotal(&op))
      placeTotal(&op);
    else
      placeKept(value);
    if (isa<mp::ReduceOp>(op))
      placePartial(value);
  }
  finishBuffers();
}

void lowering::placeValues(mp::KernelOp kernel, const Residency &residency,
                           Plan &plan) {
  Placer(kernel, residency, plan).run();
}
