// Recompute cheap rows per edge instead of storing them.
//
//   before: %y = %x * broadcast %c        after: %a = mp.gather src %x
//           %e = mp.gather src %y                %b = mp.gather src %c
//                                                %e = %a * broadcast %b
//
// The inverse of hoist-before-gather, and exact by the same argument. Hoisting
// finds where work can be done; this pass takes back what costs more there: %y
// would be a second table as large as %x, written once and read once per edge,
// while the same reads of %x are free to be followed by a multiplication.
//
// It pays when the rows of one table, with factors that are narrow beside it,
// become %y by a few cheap ops, and nothing else makes a kernel write %y; or
// when those who read %y gather all that it is computed from anyway: which
// messages are NaN, say, beside the messages.

#include "gossamer/passes/KernelPlan.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

namespace gossamer {
#define GEN_PASS_DEF_SINKBEHINDGATHER
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static constexpr size_t kFewOps = 4;
/// A factor is narrow when a row of it is at most this part of the wide row.
static constexpr int64_t kNarrowPart = 8;

/// Reading in place, also of rows in 16 bits.
static bool isFree(Operation *op) {
  return op->hasTrait<CopiesOnly>() ||
         (isa<arith::ExtFOp>(op) && isStorageOnly(op->getOperand(0).getType()));
}

static bool isCheap(Operation *op) {
  return isFree(op) ||
         isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, arith::CmpFOp, arith::SelectOp>(op);
}

namespace {
/// The ops that make one row for the edges at an end, and the rows they start
/// from.
struct Recipe {
  End end;
  SetVector<Operation *> ops; // operands first
  SetVector<Value> leaves;

  explicit Recipe(End atEnd) : end(atEnd) {}

  /// What isolated nodes are filled with, no edge sees.
  bool isUnseen(Operation *op) const {
    auto fill = dyn_cast_or_null<FillIsolatedOp>(op);
    return fill && fill.getEnd() == end;
  }

  /// Follows `value` through cheap ops.
  void follow(Value value) {
    Operation *op = value.getDefiningOp();
    if (!rowsOf(value))
      return;
    if (isTable(value) || !(isCheap(op) || isUnseen(op))) {
      leaves.insert(value);
      return;
    }
    if (ops.contains(op))
      return;
    for (Value operand : op->getOperands())
      follow(operand);
    ops.insert(op);
  }

  size_t countArithmetic() const {
    return llvm::count_if(
        ops, [&](Operation *op) { return !isFree(op) && !isUnseen(op); });
  }

  /// One table, as wide as `row`, and narrow rows.
  bool readsLittleMoreThan(Value row) const {
    int64_t width = featureSize(row.getType()), tables = 0, narrow = 0;
    for (Value leaf : leaves) {
      int64_t size = featureSize(leaf.getType());
      bool wide = isTable(leaf) && size <= width && size * kNarrowPart > width;
      tables += wide;
      narrow += wide ? 0 : size;
    }
    return tables == 1 && narrow * kNarrowPart <= width;
  }
};
} // namespace

/// True when a kernel writes `row` for no other reason than gathers.
static bool onlyGathersStore(Value row) {
  return llvm::none_of(row.getUsers(), [](Operation *user) {
    return isOutsideKernels(user) || user->hasTrait<OpTrait::IsTerminator>();
  });
}

/// The reductions that read what is computed on edges from `gather`.
static SetVector<Operation *> reductionsOf(GatherOp gather) {
  SetVector<Operation *> reached, reductions;
  reached.insert(gather);
  for (size_t i = 0; i < reached.size(); ++i)
    if (isa<ReduceOp>(reached[i]))
      reductions.insert(reached[i]);
    else
      reached.insert_range(reached[i]->getUsers());
  return reductions;
}

/// True when the kernel that reads `gather` goes by the other end of the edges.
/// At its own end it computes a row once, and need not store it.
static bool readsOtherEnd(GatherOp gather) {
  SetVector<Operation *> reductions = reductionsOf(gather);
  // Rows of edges that no reduction reads are written by destination.
  if (reductions.empty())
    return gather.getEnd() == End::Src;
  return llvm::none_of(reductions, [&](Operation *reduce) {
    return cast<ReduceOp>(reduce).getEnd() == gather.getEnd();
  });
}

/// True when each leaf is gathered for the reductions that read `gather`.
static bool readsOnlyGathered(GatherOp gather, const Recipe &recipe) {
  SetVector<Operation *> reductions = reductionsOf(gather);
  auto isForThem = [&](Operation *user) {
    auto other = dyn_cast<GatherOp>(user);
    if (!other || other.getEnd() != gather.getEnd() ||
        rowsOf(other.getEdges()) != rowsOf(gather.getEdges()))
      return false;
    SetVector<Operation *> beside = reductionsOf(other);
    return llvm::all_of(reductions,
                        [&](Operation *r) { return beside.contains(r); });
  };
  return !reductions.empty() && llvm::all_of(recipe.leaves, [&](Value leaf) {
    return llvm::any_of(leaf.getUsers(), isForThem);
  });
}

static bool isWorthSinking(GatherOp gather, const Recipe &recipe) {
  size_t arithmetic = recipe.countArithmetic();
  if (recipe.ops.empty() || arithmetic > kFewOps || !readsOtherEnd(gather) ||
      !onlyGathersStore(gather.getNodes()))
    return false;
  if (arithmetic == 0) // read in place
    return llvm::all_of(recipe.leaves, [](Value leaf) {
      return isTable(leaf) || leaf.getDefiningOp<LinearOp>();
    });
  return recipe.readsLittleMoreThan(gather.getNodes()) ||
         readsOnlyGathered(gather, recipe);
}

static void sink(GatherOp gather, const Recipe &recipe) {
  OpBuilder builder(gather);
  RowsAttr edges = rowsOf(gather.getEdges());
  IRMapping onEdge;
  for (Value leaf : recipe.leaves)
    onEdge.map(leaf, GatherOp::create(builder, gather.getLoc(),
                                      withRows(leaf.getType(), edges),
                                      gather.getEnd(), leaf));
  for (Operation *op : recipe.ops) {
    if (recipe.isUnseen(op)) {
      onEdge.map(op->getResult(0), onEdge.lookup(op->getOperand(0)));
      continue;
    }
    Operation *clone = cloneOnRows(builder, op, onEdge, edges);
    onEdge.map(op->getResult(0), clone->getResult(0));
    if (!isFree(op))
      remarkApplied(op->getLoc(), "sink-behind-gather",
                    "computed on edges, where it saves storing its rows");
  }
  gather.getEdges().replaceAllUsesWith(onEdge.lookup(gather.getNodes()));
  gather.erase();
}

namespace {
struct SinkBehindGather
    : gossamer::impl::SinkBehindGatherBase<SinkBehindGather> {
  void runOnOperation() override {
    getOperation().walk([](GatherOp gather) {
      Recipe recipe(gather.getEnd());
      recipe.follow(gather.getNodes());
      if (isWorthSinking(gather, recipe))
        sink(gather, recipe);
    });
    eraseDeadOps(getOperation());
  }
};
} // namespace
