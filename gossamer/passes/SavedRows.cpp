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

  /// Whether a value to be saved is made of what the backward reads anyway, and
  /// not narrow beside it.
  bool isSpare(Value value, const SetVector<Value> &saved) const;

private:
  SetVector<Value> choose(Value value);

  DenseMap<Value, std::unique_ptr<SetVector<Value>>> known;
  /// What values are made of that are saved in its place.
  DenseMap<Value, SetVector<Value>> sources;
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

static bool isNarrow(Value value, const SetVector<Value> &madeOf) {
  int64_t read = 0;
  for (Value other : madeOf)
    read += bytesPerRow(other.getType());
  return bytesPerRow(value.getType()) * kNarrowPart <= read;
}

bool Choice::isSpare(Value value, const SetVector<Value> &saved) const {
  auto made = sources.find(value);
  return made != sources.end() && !isNarrow(value, made->second) &&
         llvm::all_of(made->second,
                      [&](Value other) { return saved.contains(other); });
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
  for (Value operand : op->getOperands())
    saved.insert_range(savedFor(operand));
  int64_t kept = 0;
  for (Value other : saved)
    kept += other.getDefiningOp() ? bytesPerRow(other.getType()) : 0;
  if (onNodes(value) &&
      (bytesPerRow(value.getType()) < kept || isNarrow(value, saved))) {
    sources[value] = saved;
    saved.clear();
    saved.insert(value);
  }
  return saved;
}

DenseSet<Value> gossamer::madeFromGradients(func::FuncOp function,
                                            unsigned gradients) {
  Block &block = function.getBody().front();
  DenseSet<Value> made;
  made.insert_range(block.getArguments().drop_front(gradients));
  for (Operation &op : block.without_terminator())
    if (llvm::any_of(op.getOperands(),
                     [&](Value operand) { return made.contains(operand); }))
      made.insert_range(op.getResults());
  return made;
}

SmallVector<Value> gossamer::chooseSavedRows(func::FuncOp function,
                                             unsigned gradients) {
  DenseSet<Value> backward = madeFromGradients(function, gradients);
  Choice choice;
  SetVector<Value> saved;
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto isBackward = [&](Value value) { return backward.contains(value); };
    if (llvm::none_of(op.getOperands(), isBackward))
      continue;
    for (Value operand : op.getOperands())
      if (!isBackward(operand))
        saved.insert_range(choice.savedFor(operand));
  }
  SmallVector<Value> ordered;
  for (Value value : saved)
    if (value.getDefiningOp() && !choice.isSpare(value, saved))
      ordered.push_back(value);
  llvm::sort(ordered, [](Value a, Value b) {
    return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  return ordered;
}
