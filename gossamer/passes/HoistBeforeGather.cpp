// Compute per node what would otherwise be recomputed on each of its edges.
//
//   before: %m = mp.gather src %x       after: %y = math.exp %x
//           %e = math.exp %m                   %e = mp.gather src %y
//
// Exact: every edge of a node reads the same row, and a row-wise op computes
// the same result from the same rows. It pays when the graph has more edges
// than nodes. What reads parameters only is computed once, by the same
// argument.
//
// No op is named here: where a value is known is inferred (Residencies) from
// the rows that it is computed from.
//
// Ops that only copy (broadcast, reshape, slice, concat) stay behind the gather
// unless something that computes reads them: in front of it, they would be
// stored per node. For the same reason an elementwise op stays that makes rows
// wider than all rows it is made from, as an outer product does. A rounding to
// 16 bits stays, too: rows that gradients flow through are f32.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"

#include "llvm/ADT/SetVector.h"

namespace gossamer {
#define GEN_PASS_DEF_HOISTBEFOREGATHER
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Collects the gathers that `value` is computed from.
static void collectGathers(Value value, SetVector<Operation *> &seen,
                           int64_t &width) {
  Operation *op = value.getDefiningOp();
  if (!op || !rowsOf(value) || !seen.insert(op))
    return;
  if (isa<GatherOp>(op)) {
    width += featureSize(value.getType());
    return;
  }
  for (Value operand : op->getOperands())
    collectGathers(operand, seen, width);
}

/// True when a gather of the result reads no more than the gathers of what it
/// is computed from. A linear op costs too much to stay on edges in any case.
static bool narrowEnough(Operation *op) {
  if (isa<LinearOp>(op))
    return true;
  SetVector<Operation *> seen;
  int64_t width = 0;
  collectGathers(op->getResult(0), seen, width);
  return featureSize(op->getResult(0).getType()) <= width;
}

static bool isWorthMoving(Operation *op, Residencies &residencies) {
  if (!isRowWise(op) || op->hasTrait<CopiesOnly>())
    return false;
  Value result = op->getResult(0);
  if (isStorageOnly(result.getType()))
    return false;
  if (!residencies.isLower(result))
    return false;
  return !residencies.of(result).rows || narrowEnough(op);
}

/// Makes `op` read its result from where it is known.
static void hoist(Operation *op, Residencies &residencies) {
  OpBuilder builder(op);
  Value result = op->getResult(0);
  Residency home = residencies.of(result);
  Value known = residencies.build(builder, result, home.rows);
  Value moved;
  if (home.rows) {
    remarkApplied(op->getLoc(), "hoist-before-gather",
                  "computed once per node, not once per edge");
    moved = GatherOp::create(builder, op->getLoc(), result.getType(), *home.end,
                             known);
  } else {
    remarkApplied(op->getLoc(), "hoist-before-gather",
                  "computed once, not once per row");
    moved = BroadcastOp::create(builder, op->getLoc(), result.getType(), known);
  }
  result.replaceAllUsesWith(moved);
}

namespace {
struct HoistBeforeGather
    : gossamer::impl::HoistBeforeGatherBase<HoistBeforeGather> {
  void runOnOperation() override {
    // Replaced ops stay until the end: residencies are remembered by value.
    Residencies residencies;
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      if (isWorthMoving(op, residencies))
        hoist(op, residencies);
    eraseDeadOps(getOperation());
  }
};
} // namespace
