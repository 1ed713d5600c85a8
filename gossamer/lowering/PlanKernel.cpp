#include "gossamer/lowering/CheckKernel.h"
#include "gossamer/lowering/OuterFactors.h"
#include "gossamer/lowering/PlaceValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

namespace {

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
};

} // namespace

static Target wholeRow(Type type) {
  return {0, rowMajor(mp::featureShape(type))};
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

/// Vectors run along the last dim. When a leaf has its neighbours along the dim
/// before instead, and one of the two dims is the one that is combined, they
/// change places: a row times a matrix then goes over outputs, a row times the
/// transpose of a matrix over what is summed.
static void putNeighboursLast(Expr &expr, unsigned axis) {
  size_t last = expr.dims.size() - 1;
  if (last == 0 || llvm::count(expr.axes, axis) != 1 ||
      (expr.axes[last] == axis) == (expr.axes[last - 1] == axis))
    return;
  auto anyHasNeighbours = [&](size_t along, size_t across) {
    return llvm::any_of(expr.nodes, [&](const ExprNode &node) {
      return node.kind == ExprNode::Kind::Leaf &&
             node.index.coefficients[along] == 1 &&
             node.index.coefficients[across] > 1;
    });
  };
  if (expr.dims[last - 1] > 1 && anyHasNeighbours(last - 1, last) &&
      !anyHasNeighbours(last, last - 1))
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
  stage.total = plan.totalOf.at(sum);
  if (isa<mp::SumByOp>(sum))
    stage.by = numberingOf(sum);
  if (failed(buildInto(stage, rows, wholeRow(rows.getType()), /*store=*/true,
                       /*mergeAxes=*/true)))
    return failure();
  if (plan.totals[stage.total].isOuter) {
    OuterFactors factors = *outerFactors(stage.expr);
    stage.kind = Stage::Kind::Outer;
    stage.expr = std::move(factors.left);
    stage.right = std::move(factors.right);
  }
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
  stage.total = plan.totalOf.at(contract);
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
  placeValues(kernel, residency, plan);
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
