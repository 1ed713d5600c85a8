#include "gossamer/passes/SavedRows.h"

#include "gossamer/passes/NodeRows.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

namespace {
class Choice {
public:
  /// The saved values from which `value` can be computed again.
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
  if (!op)
    return saved;
  if (onNodes(value) && isa<ReduceOp, LinearOp>(op)) {
    saved.insert(value);
    return saved;
  }
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    saved.insert_range(savedFor(operand));
  for (Value other : saved)
    bytes += bytesPerRow(other.getType());
  if (onNodes(value) && bytesPerRow(value.getType()) < bytes) {
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
  llvm::sort(ordered, [](Value a, Value b) {
    return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  return ordered;
}
