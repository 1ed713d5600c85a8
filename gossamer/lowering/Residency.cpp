// A value is kept in memory when its op needs a loop nest of its own (reduce,
// linear, reduce_axis, concat, totals), or when computing it where it is read
// would repeat work: it is expensive and read by several stages or once per
// element of a larger shape, or a later sweep reads it and it is narrow.

#include "gossamer/lowering/Residency.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

Level lowering::levelOf(Value value) {
  if (mp::onEdges(value.getType()))
    return Level::Edge;
  return mp::rowsOf(value) ? Level::Row : Level::Shared;
}

bool lowering::isExpensive(Operation *op) {
  if (isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp,
          math::RoundOp, math::RoundEvenOp, math::TruncOp, math::FmaOp,
          math::CopySignOp, math::IsNaNOp, math::IsInfOp, math::IsFiniteOp>(op))
    return false;
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
         isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::RemSIOp,
             arith::FloorDivSIOp, arith::DivUIOp, arith::RemUIOp,
             mp::UniformOp>(op);
}

Value lowering::throughReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<mp::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

bool lowering::needsOwnStage(Operation *op) {
  return isTotal(op) ||
         isa<mp::ReduceOp, mp::LinearOp, mp::ReduceAxisOp, mp::ConcatOp>(op);
}

bool lowering::isTotal(Operation *op) {
  return isa_and_nonnull<mp::SumRowsOp, mp::SumByOp, mp::ContractRowsOp>(op);
}

static bool isConstant(Operation *op) {
  return isa<mp::FillOp, mp::DegreeOp, mp::IotaOp, arith::ConstantOp>(op);
}

Residency::Residency(mp::KernelOp kernel, const DenseSet<Value> &alwaysKept)
    : forced(alwaysKept) {
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator())
    assignPhases(&op);
  for (Operation &op : llvm::reverse(body.without_terminator()))
    collectUses(&op);
}

/// The first phase in which all operands are there.
void Residency::assignPhases(Operation *op) {
  unsigned phase = 0;
  for (Value operand : op->getOperands())
    phase = std::max(phase, phaseOf(operand));
  if (isa<mp::ReduceOp>(op))
    ++phase;
  phases[op->getResult(0)] = phase;
}

void Residency::Use::merge(const Use &other) {
  if (!other.sink)
    return;
  manySinks |= other.manySinks || (sink && sink != other.sink);
  sink = other.sink;
  repeated |= other.repeated;
  outerLevel |= other.outerLevel;
  first = std::min(first, other.first);
  last = std::max(last, other.last);
}

/// All reductions of one sweep over one shape are one stage; the first in the
/// block names it.
static Operation *reduceStage(mp::ReduceOp reduce, const Residency &residency) {
  unsigned phase = residency.phaseOf(reduce.getResult());
  for (auto other : reduce->getBlock()->getOps<mp::ReduceOp>())
    if (residency.phaseOf(other.getResult()) == phase &&
        mp::featureShape(other.getType()) == mp::featureShape(reduce.getType()))
      return other;
  return reduce;
}

Residency::Use Residency::useBy(OpOperand &operand) {
  Operation *user = operand.getOwner();
  Value value = operand.get();
  Use use;
  if (isa<mp::YieldOp>(user)) {
    use.sink = user;
    use.first = use.last = phaseOf(value);
    return use;
  }
  Value result = user->getResult(0);
  if (!isUsed(result))
    return use;
  if (auto reduce = dyn_cast<mp::ReduceOp>(user)) {
    use.sink = reduceStage(reduce, *this);
    use.first = use.last = phaseOf(result) - 1;
  } else if (isKept(result)) {
    use.sink = isa<mp::ContractRowsOp>(user)
                   ? static_cast<const void *>(&operand)
                   : user;
    use.first = use.last = phaseOf(result);
  } else {
    use = uses.lookup(result);
  }
  if (isa<mp::BroadcastOp>(user))
    use.repeated |=
        mp::featureSize(result.getType()) > mp::featureSize(value.getType());
  use.outerLevel |= levelOf(result) > levelOf(value);
  return use;
}

void Residency::collectUses(Operation *op) {
  Value value = op->getResult(0);
  Use use;
  for (OpOperand &operand : value.getUses())
    use.merge(useBy(operand));
  uses[value] = use;
  if (!use.sink)
    return;
  if (levelOf(value) == Level::Edge)
    phases[value] = std::max(phaseOf(value), use.first);
  if (decide(op, use))
    kept.insert(value);
  if (auto linear = dyn_cast<mp::LinearOp>(op)) {
    forceLinearOperand(linear.getInput());
    forceLinearOperand(linear.getWeight());
  }
}

/// The operands of a product are read row by row, so they have to be in memory.
void Residency::forceLinearOperand(Value operand) {
  Value value = throughReshapes(operand);
  if (auto gather = value.getDefiningOp<mp::GatherOp>())
    value = throughReshapes(gather.getNodes()) == gather.getNodes()
                ? gather.getNodes()
                : value;
  if (!isa<BlockArgument>(value))
    forced.insert(value);
}

bool Residency::decide(Operation *op, const Use &use) const {
  Value value = op->getResult(0);
  if (forced.contains(value) || needsOwnStage(op))
    return true;
  if (isView(op) || isConstant(op))
    return false;
  bool repeatsWork = isExpensive(op) && (use.manySinks || use.repeated);
  if (levelOf(value) != Level::Edge) {
    bool yielded = llvm::any_of(value.getUsers(), llvm::IsaPred<mp::YieldOp>);
    return yielded || use.outerLevel || repeatsWork;
  }
  bool narrow = mp::featureSize(value.getType()) <= kNarrow;
  bool crosses = use.last > phaseOf(value);
  // In a stage of their own, numbers are drawn for several edges at once.
  if (narrow && isa<mp::UniformOp>(op))
    return true;
  return repeatsWork || (crosses && (narrow || isExpensive(op)));
}
