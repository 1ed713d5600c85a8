#include "gossamer/passes/RowsInUse.h"
#include "gossamer/passes/RowWise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static bool onNodes(Value value) {
  return rowsOf(value) && !onEdges(value.getType());
}

RowsInUse::RowsInUse(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    llvm::for_each(op.getResults(), [&](Value value) { findShown(value); });
    findRead(&op);
  }
}

std::optional<NodesWithEdges> RowsInUse::shown(Value value) const {
  auto known = shownRows.find(value);
  return known == shownRows.end() ? std::nullopt : std::optional(known->second);
}

/// The rows that a use shows, when these are not all.
std::optional<NodesWithEdges> RowsInUse::shownBy(OpOperand &use) const {
  Operation *user = use.getOwner();
  if (auto fill = dyn_cast<FillIsolatedOp>(user))
    return NodesWithEdges{rowsOf(fill.getResult()), fill.getEnd()};
  bool keepsRows = isRowWise(user) || isa<PrefixOp>(user);
  return keepsRows ? shown(user->getResult(0)) : std::nullopt;
}

void RowsInUse::findShown(Value value) {
  if (!onNodes(value) || value.use_empty())
    return;
  std::optional<NodesWithEdges> rows = shownBy(*value.use_begin());
  if (rows && llvm::all_of(value.getUses(), [&](OpOperand &use) {
        return shownBy(use) == rows;
      }))
    shownRows[value] = *rows;
}

bool RowsInUse::isReadAt(OpOperand &use, End end) const {
  Operation *user = use.getOwner();
  if (auto gather = dyn_cast<GatherOp>(user))
    return gather.getEnd() == end;
  if (!isRowWise(user))
    return false;
  auto known = readRows.find(user->getResult(0));
  return known != readRows.end() && known->second.end == end;
}

void RowsInUse::findRead(Operation *op) {
  bool mayBeOnEdges = wasOnEdges(op) || op->hasTrait<CopiesOnly>();
  if (op->getNumResults() != 1 || !mayBeOnEdges)
    return;
  Value value = op->getResult(0);
  if (!onNodes(value) || value.use_empty())
    return;
  for (End end : {End::Src, End::Dst})
    if (llvm::all_of(value.getUses(),
                     [&](OpOperand &use) { return isReadAt(use, end); }))
      readRows[value] = {rowsOf(value), end};
}

/// Whether the gradients of the operands are 0 where that of the result is. A
/// product is with rows that may be infinite if they, too, were on edges.
bool RowsInUse::hasFiniteSlope(Operation *op) const {
  if (isa<LinearOp>(op))
    return !readRows.contains(op->getOperand(0));
  return op->hasTrait<CopiesOnly>() ||
         isa<arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::MaximumFOp,
             arith::MinimumFOp, arith::SelectOp, arith::ExtFOp,
             arith::TruncFOp>(op);
}

std::optional<NodesWithEdges> RowsInUse::keptFor(Operation *op,
                                                 Value operand) const {
  if (op->getNumResults() != 1)
    return std::nullopt;
  if (std::optional<NodesWithEdges> rows = shown(op->getResult(0)))
    return shown(operand) ? std::nullopt : rows;
  auto known = readRows.find(op->getResult(0));
  if (known == readRows.end() || hasFiniteSlope(op))
    return std::nullopt;
  bool later =
      readRows.contains(operand) && !hasFiniteSlope(operand.getDefiningOp());
  return later ? std::nullopt : std::optional(known->second);
}
