#include "gossamer/passes/SavedRows.h"

#include "gossamer/passes/NodeRows.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Rows that are at most this part of the rows they are made from are worth
/// saving even where those are at hand: the backward reads less.
static constexpr int64_t kNarrowPart = 8;

namespace {
class Choice {
public:
  /// The values from which `value` can be computed again: saved ones, and rows
  /// of arguments.
  const SetVector<Value> &savedFor(Value value);

private:
  SetVector<Value> choose(Value value);

  DenseMap<Value, std::unique_ptr<SetVector<Value>>> known;
};
} // namespace

static bool onNodes(Value value) {
  return rowsOf(value) && !onEdges(value.getType());
}

const SetVector<Value> &Choice::savedFor(Value value) {
  if (auto it = known.find(value); it != known.end())
    return *it->second;
  auto chosen = std::make_unique<SetVector<Value>>(choose(value));
  return *(known[value] = std::move(chosen));
}

SetVector<Value> Choice::choose(Value value) {
  SetVector<Value> saved;
  Operation *op = value.getDefiningOp();
  if (!op) {
    if (onNodes(value))
      saved.insert(value);
    return saved;
  }
  if (onNodes(value) && isa<ReduceOp, LinearOp>(op)) {
    saved.insert(value);
    return saved;
  }
  int64_t kept = 0, read = 0;
  for (Value operand : op->getOperands())
    saved.insert_range(savedFor(operand));
  for (Value other : saved) {
    int64_t bytes = bytesPerRow(other.getType());
    kept += other.getDefiningOp() ? bytes : 0;
    read += bytes;
  }
  int64_t own = bytesPerRow(value.getType());
  if (onNodes(value) && (own < kept || own * kNarrowPart <= read)) {
    saved.clear();
    saved.insert(value);
  }
  return saved;
}

SmallVector<Value> gossamer::chooseSavedRows(func::FuncOp function,
                                             unsigned gradients) {
  Block &block = function.getBody().front();
  DenseSet<Value> backward;
  backward.insert_range(block.getArguments().drop_front(gradients));
  Choice choice;
  SetVector<Value> saved;
  for (Operation &op : block.without_terminator()) {
    auto isBackward = [&](Value value) { return backward.contains(value); };
    if (llvm::none_of(op.getOperands(), isBackward))
      continue;
    backward.insert_range(op.getResults());
    for (Value operand : op.getOperands())
      if (!isBackward(operand))
        saved.insert_range(choice.savedFor(operand));
  }
  SmallVector<Value> ordered = saved.takeVector();
  llvm::erase_if(ordered, [](Value v) { return !v.getDefiningOp(); });
  llvm::sort(ordered, [](Value a, Value b) {
    return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  return ordered;
}
