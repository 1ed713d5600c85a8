#include "gossamer/passes/KernelPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Numbers per row are few up to here, or when a row that is computed from them
/// or gives them is at least so many times as wide.
static constexpr int64_t kFewNumbers = 16;
static constexpr int64_t kScoreWidth = 4;

bool gossamer::isTable(Value value) {
  return !value.getDefiningOp() || isOutsideKernels(value.getDefiningOp());
}

bool gossamer::isTotal(Operation *op) {
  if (isa_and_nonnull<SumByOp>(op))
    return true;
  if (auto sum = dyn_cast_or_null<SumRowsOp>(op))
    return !isTable(sum.getRows());
  auto contract = dyn_cast_or_null<ContractRowsOp>(op);
  return contract &&
         (contract.getInKernel() || onEdges(contract.getLeft().getType())) &&
         !llvm::all_of(contract->getOperands(), isTable);
}

bool gossamer::isOutsideKernels(Operation *op) {
  if (isa<PrefixOp, PadRowsOp>(op))
    return true;
  if (isa<SumRowsOp, ContractRowsOp>(op))
    return !isTotal(op);
  if (auto linear = dyn_cast<LinearOp>(op))
    return !onEdges(linear.getType()) && !linear.getInKernel();
  if (isa<ReshapeOp>(op) ||
      (isa<TransposeOp, SliceOp>(op) && !rowsOf(op->getResult(0))))
    return isTable(op->getOperand(0)) ||
           isTotal(op->getOperand(0).getDefiningOp());
  return false;
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

/// The rows of a total that decide which kernel adds it up: those that some
/// kernel has to compute, if any.
static Value summedRows(Operation *total) {
  if (auto sum = dyn_cast<SumByOp>(total))
    return sum.getRows();
  return *llvm::find_if_not(total->getOperands(), isTable);
}

/// True when a kernel reads `operand` as a table, whoever computes it.
static bool isReadAsTable(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (isa<LinearOp, SumByOp>(op))
    return operand.getOperandNumber() == 1;
  return isa<LookupOp, UniformOp>(op);
}

/// A product of rows of nodes that no two kernels compute. One that makes wide
/// rows from a few numbers is cheaper to compute where it is read.
static bool isNodeProduct(Operation *op) {
  if (!isa_and_nonnull<LinearOp>(op) || onEdges(op->getResult(0).getType()))
    return false;
  int64_t depth = featureSize(op->getOperand(0).getType());
  return depth > kFewNumbers ||
         depth * kScoreWidth > featureSize(op->getResult(0).getType());
}

/// The end by which `value` is computed on its way from tables: that of the
/// first op that has one. A degree is narrow enough to be read from memory, so
/// it need not be counted.
static std::optional<End> endOf(Value value, bool countDegrees) {
  SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (!rowsOf(reached[i]) || isTable(reached[i]))
      continue;
    Operation *op = reached[i].getDefiningOp();
    if (auto end = op->getAttrOfType<EndAttr>("end");
        end && (countDegrees || !isa<DegreeOp>(op)))
      return end.getValue();
    reached.insert_range(op->getOperands());
  }
  return std::nullopt;
}

/// The end by which what alone reads `value` is computed.
static std::optional<End> endOfReader(Value value) {
  while (value.hasOneUse()) {
    Operation *reader = *value.user_begin();
    if (!reader->hasTrait<OpTrait::Elementwise>())
      break;
    value = reader->getResult(0);
    if (std::optional<End> end = endOf(value, /*countDegrees=*/false))
      return end;
  }
  return std::nullopt;
}

/// The end by which a product is computed: where its input is, or what reads
/// it, so that it need not be stored; dst when nothing says.
static End endOfProduct(Operation *product) {
  Value input = product->getOperand(0);
  if (std::optional<End> end = endOf(input, /*countDegrees=*/false))
    return *end;
  if (std::optional<End> end = endOfReader(product->getResult(0)))
    return *end;
  return endOf(input, /*countDegrees=*/true).value_or(End::Dst);
}

/// The kernels that could compute `value`, the preferred one first.
SmallVector<Visit, 2> KernelPlan::visitsOf(Value value) const {
  Operation *op = value.getDefiningOp();
  if (isTotal(op))
    return visitsOf(summedRows(op));
  RowsAttr rows = rowsOf(value);
  if (!rows)
    return {Visit()};
  if (rows.getKind() == RowKind::Edge)
    return {Visit{nodeRows.at(End::Dst, rows), End::Dst},
            Visit{nodeRows.at(End::Src, rows), End::Src}};
  if (auto end = op ? op->getAttrOfType<EndAttr>("end") : EndAttr())
    return {Visit{rows, end.getValue()}};
  if (rows.getKind() == RowKind::Src)
    return {Visit{rows, End::Src}};
  if (rows.getKind() == RowKind::Dst)
    return {Visit{rows, End::Dst}};
  // A product goes where its input or its reader is computed, nowhere else.
  if (isNodeProduct(op))
    return {Visit{rows, endOfProduct(op)}};
  return {Visit{rows, End::Dst}, Visit{rows, End::Src}};
}

/// Values without rows can be computed anywhere, but totals.
bool KernelPlan::canCompute(Value value, Visit visit) const {
  return (!rowsOf(value) && !isTotal(value.getDefiningOp())) ||
         llvm::is_contained(visitsOf(value), visit);
}

/// A gather from the end by which `visit` goes reads the row itself.
static bool readsOwnRow(GatherOp gather, Visit visit) {
  return gather.getEnd() == visit.end &&
         rowsOf(gather.getNodes()) == visit.rows;
}

int64_t KernelPlan::available(Value value) {
  if (!isTable(value))
    return homeLevel(value) + 1;
  int64_t latest = 0;
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      latest = std::max(latest, available(operand));
  return latest;
}

/// The level of the kernel that writes `value` when it is a root.
int64_t KernelPlan::homeLevel(Value value) {
  if (auto it = delayed.find(value); it != delayed.end())
    return it->second;
  int64_t best = std::numeric_limits<int64_t>::max();
  for (Visit visit : visitsOf(value))
    best = std::min(best, levelAsRoot(value, visit));
  return best;
}

/// The lowest level at which a kernel that goes by `visit` can write `value`.
int64_t KernelPlan::levelAsRoot(Value value, Visit visit) {
  Operation *op = value.getDefiningOp();
  return isTotal(op) ? computeLevel(op, visit) : level(value, visit);
}

/// The lowest level at which a kernel that goes by `visit` can read `value`.
int64_t KernelPlan::level(Value value, Visit visit) {
  if (isTable(value) || isTotal(value.getDefiningOp()) ||
      !canCompute(value, visit))
    return available(value);
  LevelKey key(value, visit.rows, static_cast<unsigned>(visit.end));
  if (auto it = levels.find(key); it != levels.end())
    return it->second;
  int64_t result = computeLevel(value.getDefiningOp(), visit);
  levels[key] = result;
  return result;
}

int64_t KernelPlan::computeLevel(Operation *op, Visit visit) {
  if (auto gather = dyn_cast<GatherOp>(op))
    return readsOwnRow(gather, visit) ? level(gather.getNodes(), visit)
                                      : available(gather.getNodes());
  int64_t latest = 0;
  for (OpOperand &operand : op->getOpOperands())
    latest =
        std::max(latest, isReadAsTable(operand) ? available(operand.get())
                                                : level(operand.get(), visit));
  return latest;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelPlan::KernelPlan(func::FuncOp ofFunction)
    : function(ofFunction), nodeRows(ofFunction) {
  computeLevels();
  for (Operation &op : function.getBody().front()) {
    if (isTotal(&op))
      required.insert(op.getResult(0));
    if (isOutsideKernels(&op) || op.hasTrait<OpTrait::IsTerminator>())
      for (Value operand : op.getOperands())
        if (!isTable(operand))
          required.insert(operand);
  }
  roots = required;
  do
    placeRoots();
  while (delayOneKernel());
  finish();
}

/// Operands before users keeps the recursion over levels shallow.
void KernelPlan::computeLevels() {
  levels.clear();
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      available(result);
}

/// Places every root in a kernel, and what it is computed from; that may ask
/// for more roots, until it does not.
void KernelPlan::placeRoots() {
  size_t known;
  do {
    known = roots.size();
    kernels.clear();
    claims.clear();
    // Roots that leave a choice come last, and join the kernels of the others.
    auto leavesChoice = [&](Value root) { return visitsOf(root).size() > 1; };
    for (bool choice : {false, true})
      for (Value root : roots)
        if (leavesChoice(root) == choice)
          kernelFor(root).outputs.insert(root);
    for (PlannedKernel &kernel : kernels)
      for (Value output : kernel.outputs)
        collect(kernel, output);
  } while (roots.size() != known);
}

PlannedKernel &KernelPlan::kernelFor(Value root) {
  int64_t home = homeLevel(root);
  std::optional<Visit> first;
  for (Visit visit : visitsOf(root)) {
    if (levelAsRoot(root, visit) > home)
      continue;
    if (!first)
      first = visit;
    for (PlannedKernel &kernel : kernels)
      if (kernel.visit == visit && kernel.level == home)
        return kernel;
  }
  kernels.emplace_back();
  kernels.back().visit = *first;
  kernels.back().level = home;
  return kernels.back();
}

/// True for a few numbers per row, such as scores of attention, that a kernel
/// before `kernel` can compute from a product that it writes: cheaper than to
/// read the row of products again.
bool KernelPlan::isScoreOfEarlier(const PlannedKernel &kernel, Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa<ReduceAxisOp, LinearOp>(op) || onEdges(value.getType()) ||
      featureSize(value.getType()) * kScoreWidth >
          featureSize(op->getOperand(0).getType()) ||
      homeLevel(value) >= kernel.level)
    return false;
  SetVector<Operation *> reached;
  reached.insert(op);
  for (size_t i = 0; i < reached.size(); ++i)
    for (Value operand : reached[i]->getOperands()) {
      if (!rowsOf(operand) || isTable(operand))
        continue;
      if (roots.contains(operand) && homeLevel(operand) < kernel.level) {
        if (isNodeProduct(operand.getDefiningOp()))
          return true;
      } else {
        reached.insert(operand.getDefiningOp());
      }
    }
  return false;
}

/// Adds `value`, and what it is computed from, to `kernel`.
void KernelPlan::collect(PlannedKernel &kernel, Value value) {
  bool written = roots.contains(value) && homeLevel(value) < kernel.level;
  if (isTable(value) || written || !canCompute(value, kernel.visit))
    return collectTable(kernel, value);
  Operation *op = value.getDefiningOp();
  if (kernel.body.contains(op))
    return;
  if (isScoreOfEarlier(kernel, value))
    return collectTable(kernel, value);
  if (auto gather = dyn_cast<GatherOp>(op)) {
    if (readsOwnRow(gather, kernel.visit))
      collect(kernel, gather.getNodes());
    else
      collectTable(kernel, gather.getNodes());
  } else {
    for (OpOperand &operand : op->getOpOperands()) {
      if (isReadAsTable(operand))
        collectTable(kernel, operand.get());
      else
        collect(kernel, operand.get());
    }
  }
  kernel.body.insert(op);
  if (isa<ReduceOp>(op) || isNodeProduct(op))
    claim(kernel, value);
}

/// `kernel` reads `value` from memory, whoever writes it.
void KernelPlan::collectTable(PlannedKernel &kernel, Value value) {
  if (!isTable(value))
    roots.insert(value);
  kernel.inputs.insert(value);
}

/// A reduction or product in two kernels becomes a root: it is not worth
/// computing twice. One that is read rounded only is stored so.
void KernelPlan::claim(const PlannedKernel &kernel, Value value) {
  auto [it, isFirst] = claims.try_emplace(value, kernel.level);
  if (isFirst || it->second == kernel.level)
    return;
  Operation *user = *value.user_begin();
  bool onlyNarrow = value.hasOneUse() && isa<arith::TruncFOp>(user);
  roots.insert(onlyNarrow ? user->getResult(0) : value);
}

/// True when `kernel` reads `value` where it has to be complete: at the other
/// end of its edges, as a total, or as a table whoever computes it.
static bool readsElsewhere(const PlannedKernel &kernel, Value value) {
  if (isTotal(value.getDefiningOp()))
    return kernel.inputs.contains(value);
  return llvm::any_of(kernel.body, [&](Operation *op) {
    if (auto gather = dyn_cast<GatherOp>(op))
      return gather.getNodes() == value && !readsOwnRow(gather, kernel.visit);
    return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return operand.get() == value && isReadAsTable(operand);
    });
  });
}

/// True when no kernel of rows up to the level of `late` reads `table`, or what
/// kernels of parameters and ops outside kernels make of it; these can wait,
/// unless `late` reads what they make. With `moved`, `late` may read `table`
/// itself, from its own body.
static bool isReadAfter(const PlannedKernel &late, Value table,
                        ArrayRef<PlannedKernel> all, bool moved = false) {
  bool readBefore = llvm::any_of(all, [&](const PlannedKernel &kernel) {
    if (!kernel.inputs.contains(table))
      return false;
    if (&kernel == &late)
      return !moved;
    if (kernel.visit.rows)
      return kernel.level <= late.level;
    return llvm::any_of(kernel.outputs, [&](Value output) {
      return !isReadAfter(late, output, all);
    });
  });
  return !readBefore && llvm::all_of(table.getUsers(), [&](Operation *user) {
    return !isOutsideKernels(user) ||
           isReadAfter(late, user->getResult(0), all);
  });
}

/// True when all who read what `early` writes can read it inside `late`, or
/// after it.
static bool canJoin(const PlannedKernel &early, const PlannedKernel &late,
                    ArrayRef<PlannedKernel> kernels) {
  if (early.visit != late.visit || early.level >= late.level)
    return false;
  return llvm::all_of(early.outputs, [&](Value output) {
    return !readsElsewhere(late, output) &&
           isReadAfter(late, output, kernels, /*moved=*/true);
  });
}

/// Moves the roots of one kernel up into a later kernel of the same rows, when
/// nothing up to there reads them. False when there is none.
bool KernelPlan::delayOneKernel() {
  for (const PlannedKernel &early : kernels)
    for (const PlannedKernel &late : kernels)
      if (canJoin(early, late, kernels)) {
        for (Value output : early.outputs)
          delayed[output] = late.level;
        computeLevels();
        return true;
      }
  return false;
}

/// Drops outputs that nobody reads, and puts everything in order.
void KernelPlan::finish() {
  for (PlannedKernel &kernel : kernels) {
    kernel.outputs.remove_if([&](Value output) {
      return !required.contains(output) &&
             llvm::none_of(kernels, [&](const PlannedKernel &reader) {
               return reader.inputs.contains(output);
             });
    });
    SmallVector<Operation *> body = kernel.body.takeVector();
    llvm::sort(
        body, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    kernel.body.insert_range(body);
  }
  llvm::erase_if(kernels, [](const PlannedKernel &kernel) {
    return kernel.outputs.empty();
  });
  llvm::stable_sort(kernels,
                    [](const PlannedKernel &a, const PlannedKernel &b) {
                      if (a.level != b.level)
                        return a.level < b.level;
                      return a.outputs.front().getDefiningOp()->isBeforeInBlock(
                          b.outputs.front().getDefiningOp());
                    });
}
