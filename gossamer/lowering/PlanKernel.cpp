#include "gossamer/lowering/CheckKernel.h"
#include "gossamer/lowering/Residency.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
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

/// Multiplications of a product of rows that take as long as one edge.
constexpr int64_t kProductsPerWork = 1024;
constexpr int64_t kMaxRowWork = int64_t(1) << 20;

class Planner {
public:
  Planner(mp::KernelOp toPlan, const DenseSet<Value> &forced)
      : kernel(toPlan), residency(toPlan, forced) {}

  /// Fails with `needed` set when that value has to be kept in memory.
  LogicalResult run();

  Plan plan;
  Value needed;

private:
  void placeTables();
  void chooseBlockRows();
  bool crossesProduct(Value value);
  void placeKept(Value value);
  void placeTotal(Operation *op);
  void placePartial(Value reduction);
  Place slot(Type element, int64_t width);
  void finishBuffers();
  LogicalResult addStages(Operation *op);
  LogicalResult addMap(Value value, const Target &target, const Place &place,
                       bool store);
  LogicalResult addConcat(mp::ConcatOp concat);
  LogicalResult addContract(mp::ReduceAxisOp reduce);
  void addRowWork(int64_t multiplications);
  LogicalResult addLinear(mp::LinearOp linear);
  LogicalResult addSumRows(Operation *sum);
  LogicalResult addOuter(mp::ContractRowsOp contract);
  LogicalResult addReductions();
  LogicalResult addYields();
  LogicalResult buildInto(Stage &stage, ArrayRef<Value> results,
                          ArrayRef<Target> targets, bool store, bool mergeAxes);
  void push(Stage stage, unsigned phase);
  Phase &phaseAt(unsigned index);

  mp::KernelOp kernel;
  Residency residency;
  int64_t blockBytesPerEdge = 0;
  unsigned rowBuffers = 0;
  DenseMap<Operation *, unsigned> totalOf; // index into plan.totals
  SmallVector<Value> blockBuffers;
};

} // namespace

static Target wholeRow(Type type) {
  return {0, rowMajor(mp::featureShape(type))};
}

static Place placeFor(Value value, Place::Kind kind) {
  Place place;
  place.kind = kind;
  place.level = levelOf(value);
  place.width = mp::featureSize(value.getType());
  place.element = getElementTypeOrSelf(value.getType());
  return place;
}

void Planner::placeTables() {
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
bool Planner::crossesProduct(Value value) {
  unsigned first = residency.phaseOf(value), last = residency.lastSweep(value);
  return llvm::any_of(kernel.getBody().front(), [&](Operation &op) {
    if (!isRowProduct(op) || !residency.isUsed(op.getResult(0)))
      return false;
    unsigned phase = residency.phaseOf(op.getResult(0));
    return first < phase && phase <= last;
  });
}

void Planner::chooseBlockRows() {
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
Place Planner::slot(Type element, int64_t width) {
  Place place;
  place.offset = plan.scratchBytes;
  place.width = width;
  place.element = element;
  plan.scratchBytes +=
      llvm::alignTo(width * bytesOf(element), 64) + kBufferPadding;
  return place;
}

void Planner::placeKept(Value value) {
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
void Planner::placePartial(Value reduction) {
  Place &place = plan.places[reduction];
  place.partial = plan.partialBytes;
  plan.partialBytes +=
      llvm::alignTo(place.width * bytesOf(place.element), 64) + kBufferPadding;
}

void Planner::placeTotal(Operation *op) {
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
    int64_t bytes = total.table.width * bytesOf(total.table.element);
    total.inRuns = bytes <= kMaxRunBytes;
    total.run = total.inRuns ? slot(total.table.element, total.table.width)
                             : total.table;
    // As many rows as a run has of its own, or it would cost more than them.
    if (isa<mp::SumByOp>(op) && total.inRuns)
      plan.runRows = std::max<int64_t>(
          plan.runRows, llvm::PowerOf2Ceil(numberingOf(op).count));
  }
  totalOf[op] = plan.totals.size();
  plan.totals.push_back(total);
}

/// Block buffers follow the slots, row buffers follow them.
void Planner::finishBuffers() {
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

Phase &Planner::phaseAt(unsigned index) {
  if (plan.phases.size() <= index)
    plan.phases.resize(index + 1);
  return plan.phases[index];
}

void Planner::push(Stage stage, unsigned phase) {
  switch (stage.level) {
  case Level::Shared:
    plan.sharedStages.push_back(std::move(stage));
    return;
  case Level::Row:
    phaseAt(phase).rowStages.push_back(std::move(stage));
    return;
  case Level::Edge:
    plan.usesEdges = true;
    phaseAt(phase).blocked |= llvm::any_of(stage.places, [](const Place &p) {
      return p.kind == Place::Kind::BlockBuffer;
    });
    phaseAt(phase).edgeStages.push_back(std::move(stage));
    return;
  }
}

LogicalResult Planner::buildInto(Stage &stage, ArrayRef<Value> results,
                                 ArrayRef<Target> targets, bool store,
                                 bool mergeAxes) {
  auto isLeaf = [&](Value value) { return plan.places.contains(value); };
  auto built = buildExpr(results, targets, isLeaf, store, mergeAxes);
  if (Value *value = std::get_if<Value>(&built)) {
    needed = *value;
    return failure();
  }
  stage.expr = std::move(std::get<Expr>(built));
  for (const ExprNode &node : stage.expr.nodes) {
    plan.usesEdges |= node.kind == ExprNode::Kind::Degree ||
                      node.kind == ExprNode::Kind::EdgeId ||
                      node.kind == ExprNode::Kind::FillEmpty;
    bool computes = node.kind == ExprNode::Kind::Compute ||
                    node.kind == ExprNode::Kind::Random;
    stage.expensive |= computes && isExpensive(node.value.getDefiningOp());
  }
  return success();
}

LogicalResult Planner::addMap(Value value, const Target &target,
                              const Place &place, bool store) {
  Stage stage(value.getLoc());
  stage.level = place.level;
  stage.places.push_back(place);
  if (failed(buildInto(stage, value, target, store, /*mergeAxes=*/true)))
    return failure();
  push(std::move(stage), residency.phaseOf(value));
  return success();
}

/// Each input is stored into its part of the result.
LogicalResult Planner::addConcat(mp::ConcatOp concat) {
  const Place place = plan.places.at(concat.getResult());
  Target target = wholeRow(concat.getType());
  int64_t axis = concat.getAxis() - mp::numRowAxes(concat.getType());
  for (Value input : concat.getInputs()) {
    Stage stage(concat.getLoc());
    stage.level = place.level;
    stage.places.push_back(place);
    if (failed(buildInto(stage, input, target, /*store=*/true,
                         /*mergeAxes=*/true)))
      return failure();
    push(std::move(stage), residency.phaseOf(concat.getResult()));
    target.offset +=
        target.strides[axis] * mp::featureShape(input.getType())[axis];
  }
  return success();
}

/// Moves dim `dim` behind all others.
static void moveToEnd(Expr &expr, unsigned dim) {
  auto move = [&](auto &list) {
    std::rotate(list.begin() + dim, list.begin() + dim + 1, list.end());
  };
  move(expr.dims);
  move(expr.axes);
  for (ExprNode &node : expr.nodes)
    if (node.hasIndex())
      move(node.index.coefficients);
  for (LinearForm &target : expr.targets)
    move(target.coefficients);
}

/// Vectors run along the last dim. When that is the one that is combined, and a
/// leaf has its neighbours along the dim before instead, as the matrix in a row
/// times a matrix has, the two change places.
static void putNeighboursLast(Expr &expr, unsigned axis) {
  size_t last = expr.dims.size() - 1;
  if (expr.axes.back() != axis || last == 0 || expr.axes[last - 1] == axis)
    return;
  auto isAcross = [&](const ExprNode &node) {
    return node.kind == ExprNode::Kind::Leaf &&
           node.index.coefficients[last] > 1 &&
           node.index.coefficients[last - 1] == 1;
  };
  if (expr.dims[last - 1] > 1 && llvm::any_of(expr.nodes, isAcross))
    moveToEnd(expr, last - 1);
}

LogicalResult Planner::addContract(mp::ReduceAxisOp reduce) {
  Value input = reduce.getInput();
  Stage stage(reduce.getLoc());
  stage.kind = Stage::Kind::Contract;
  stage.level = levelOf(reduce.getResult());
  stage.places.push_back(plan.places.at(reduce.getResult()));
  stage.kinds.push_back(reduce.getKind());
  stage.axis = reduce.getAxis() - mp::numRowAxes(input.getType());
  // The result does not move along the axis.
  Target target = wholeRow(reduce.getType());
  target.strides.insert(target.strides.begin() + stage.axis, 0);
  if (failed(buildInto(stage, input, target, /*store=*/true,
                       /*mergeAxes=*/false)))
    return failure();
  if (!stage.expr.dims.empty())
    putNeighboursLast(stage.expr, stage.axis);
  push(std::move(stage), residency.phaseOf(reduce.getResult()));
  return success();
}

/// Of a product that a row takes part in.
void Planner::addRowWork(int64_t multiplications) {
  plan.rowWork =
      std::min(kMaxRowWork, plan.rowWork + multiplications / kProductsPerWork);
}

LogicalResult Planner::addLinear(mp::LinearOp linear) {
  Stage stage(linear.getLoc());
  stage.kind = Stage::Kind::Linear;
  stage.level = levelOf(linear.getResult());
  stage.places.push_back(plan.places.at(linear.getResult()));
  stage.input = throughReshapes(linear.getInput());
  stage.weight = throughReshapes(linear.getWeight());
  stage.depth = mp::featureShape(linear.getWeight().getType()).front();
  stage.lead = mp::featureSize(linear.getInput().getType()) / stage.depth;
  if (stage.level == Level::Row)
    addRowWork(stage.depth * stage.places.front().width);
  push(std::move(stage), residency.phaseOf(linear.getResult()));
  return success();
}

LogicalResult Planner::addSumRows(Operation *sum) {
  Value rows = sum->getOperand(0);
  Stage stage(sum->getLoc());
  stage.kind = Stage::Kind::SumRows;
  stage.level = levelOf(rows);
  stage.total = totalOf.at(sum);
  if (isa<mp::SumByOp>(sum))
    stage.by = numberingOf(sum);
  if (failed(buildInto(stage, rows, wholeRow(rows.getType()), /*store=*/true,
                       /*mergeAxes=*/true)))
    return failure();
  push(std::move(stage), residency.phaseOf(sum->getResult(0)));
  return success();
}

LogicalResult Planner::addOuter(mp::ContractRowsOp contract) {
  Stage stage(contract.getLoc()), ofRight(contract.getLoc());
  auto build = [&](Stage &into, Value factor) {
    return buildInto(into, factor, wholeRow(factor.getType()), /*store=*/true,
                     /*mergeAxes=*/true);
  };
  if (failed(build(stage, contract.getLeft())) ||
      failed(build(ofRight, contract.getRight())))
    return failure();
  stage.kind = Stage::Kind::Outer;
  stage.level = levelOf(contract.getLeft());
  stage.right = std::move(ofRight.expr);
  stage.total = totalOf.at(contract);
  if (stage.level == Level::Row)
    addRowWork(mp::featureSize(contract.getLeft().getType()) *
               mp::featureShape(contract.getType()).back());
  push(std::move(stage), residency.phaseOf(contract.getResult()));
  return success();
}

LogicalResult Planner::addStages(Operation *op) {
  Value value = op->getResult(0);
  if (!residency.isUsed(value) || !residency.isKept(value))
    return success();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](mp::ReduceOp) { return success(); }) // ends its sweep
      .Case([&](mp::ConcatOp concat) { return addConcat(concat); })
      .Case([&](mp::ReduceAxisOp reduce) { return addContract(reduce); })
      .Case([&](mp::LinearOp linear) { return addLinear(linear); })
      .Case<mp::SumRowsOp, mp::SumByOp>(
          [&](Operation *sum) { return addSumRows(sum); })
      .Case([&](mp::ContractRowsOp contract) { return addOuter(contract); })
      .Default([&](Operation *) {
        return addMap(value, wholeRow(value.getType()), plan.places.at(value),
                      /*store=*/false);
      });
}

/// One stage for all reductions of a sweep that have the same shape.
LogicalResult Planner::addReductions() {
  using Key = std::pair<unsigned, SmallVector<int64_t, 4>>;
  SmallVector<std::pair<Key, SmallVector<mp::ReduceOp>>> groups;
  for (auto reduce : kernel.getBody().front().getOps<mp::ReduceOp>()) {
    if (!residency.isUsed(reduce.getResult()))
      continue;
    Key key{residency.phaseOf(reduce.getResult()) - 1,
            SmallVector<int64_t, 4>(mp::featureShape(reduce.getType()))};
    auto *group =
        llvm::find_if(groups, [&](auto &g) { return g.first == key; });
    if (group == groups.end())
      group = &groups.emplace_back(key, SmallVector<mp::ReduceOp>());
    group->second.push_back(reduce);
  }
  for (auto &[key, reductions] : groups) {
    Stage stage(reductions.front().getLoc());
    stage.kind = Stage::Kind::Reduce;
    stage.level = Level::Edge;
    SmallVector<Value> results;
    SmallVector<Target> targets;
    for (mp::ReduceOp reduce : reductions) {
      stage.places.push_back(plan.places.at(reduce.getResult()));
      stage.kinds.push_back(reduce.getKind());
      results.push_back(reduce.getEdges());
      targets.push_back(wholeRow(reduce.getType()));
    }
    if (failed(buildInto(stage, results, targets, /*store=*/true,
                         /*mergeAxes=*/true)))
      return failure();
    push(std::move(stage), key.first);
  }
  return success();
}

/// Results that are not stored by the stage that computes them.
LogicalResult Planner::addYields() {
  Block &body = kernel.getBody().front();
  for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
    Value value = operand.get();
    unsigned table = body.getNumArguments() + operand.getOperandNumber();
    auto known = plan.places.find(throughReshapes(value));
    if (known != plan.places.end() &&
        known->second.kind == Place::Kind::Table &&
        known->second.table == table)
      continue;
    Place place = placeFor(value, Place::Kind::Table);
    place.table = table;
    place.writeOnly = true;
    if (failed(addMap(value, wholeRow(value.getType()), place, /*store=*/true)))
      return failure();
  }
  return success();
}

LogicalResult Planner::run() {
  Block &body = kernel.getBody().front();
  placeTables();
  chooseBlockRows();
  for (Operation &op : body.without_terminator())
    if (residency.isKept(op.getResult(0))) {
      if (isTotal(&op))
        placeTotal(&op);
      else
        placeKept(op.getResult(0));
      if (isa<mp::ReduceOp>(op))
        placePartial(op.getResult(0));
    }
  finishBuffers();
  for (Operation &op : body.without_terminator())
    if (failed(addStages(&op)))
      return failure();
  if (failed(addYields()) || failed(addReductions()))
    return failure();
  plan.splitsRows = plan.partialBytes > 0 && plan.totals.empty();
  return success();
}

Numbering lowering::numberingOf(Operation *op) {
  auto countOf = [](Value table) {
    return mp::featureShape(table.getType()).front();
  };
  if (auto lookup = dyn_cast<mp::LookupOp>(op))
    return {lookup.getIndex(), countOf(lookup.getTable()), lookup.getFromEnd()};
  auto sum = cast<mp::SumByOp>(op);
  return {sum.getIndex(), countOf(sum.getResult()), sum.getFromEnd()};
}

FailureOr<Plan> lowering::planKernel(mp::KernelOp kernel) {
  if (failed(checkKernel(kernel)))
    return failure();
  DenseSet<Value> forced;
  while (true) {
    Planner planner(kernel, forced);
    if (succeeded(planner.run()))
      return std::move(planner.plan);
    if (!forced.insert(planner.needed).second)
      return kernel.emitOpError("has a reshape that cannot be read in place");
  }
}
