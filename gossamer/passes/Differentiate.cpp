// From a function to its gradients.
//
//   before: @region(%x, %w) -> %y
//   after:  @region(%x, %w, saved..., %dy) -> %dx, %dw       (mode=backward)
//           @region(%x, %w) -> %y, saved...                  (mode=forward)
//
// Both halves are cut from one function, so they agree on what is saved:
// 1. the gradients are computed behind the results, op by op in reverse
//    (Derivatives.h), for values that depend on what `wrt` names;
// 2. softmax is spelled out: its statistics are rows that can be saved; and
//    masks become part of positions that are saved (SavedMasks.h);
// 3. SavedRows chooses what the backward takes from the forward;
// 4. one half stays.
//
// The other passes then optimise each half like any function. No gradient is
// scattered, and no row of an edge is saved. A gradient is stored in the format
// of its value (StoredFormat.h), and so are saved rows; sums are f32.

#include "gossamer/passes/DecomposeSoftmax.h"
#include "gossamer/passes/Derivatives.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowsInUse.h"
#include "gossamer/passes/SavedMasks.h"
#include "gossamer/passes/SavedRows.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"

namespace gossamer {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

namespace {
/// Reverse mode over one block.
class Reverse : public Adjoint {
public:
  Reverse(func::FuncOp ofFunction, ArrayRef<int64_t> arguments);

  /// Adds arguments for the gradients of the results, and ops; returns the
  /// gradients of the arguments.
  FailureOr<SmallVector<Value>> run();

  bool wants(Value operand) const override {
    return isFloat(operand) && active.contains(operand);
  }
  void add(Value operand, Value more) override;

private:
  LogicalResult markActive();
  void reverse(Operation *of);
  /// `value` with 0 in all rows but `kept`.
  Value only(NodesWithEdges kept, Value value);
  Value onlyFactor(NodesWithEdges kept, Value factor);
  Value onlyGradient(NodesWithEdges kept, Value operand, Value more);

  func::FuncOp function;
  SmallVector<BlockArgument> wrt;
  NodeRows rows;
  OpBuilder insertion;
  /// What depends on `wrt` by way of ops that have a derivative.
  DenseSet<Value> active;
  /// In the other rows, slopes may be infinite, which times 0 are no 0.
  RowsInUse inUse;
  DenseMap<Value, Value> gradients;
  DenseSet<Operation *> forward;
};
} // namespace

Reverse::Reverse(func::FuncOp ofFunction, ArrayRef<int64_t> arguments)
    : function(ofFunction), rows(ofFunction),
      insertion(ofFunction.getBody().front().getTerminator()),
      inUse(ofFunction.getBody().front()) {
  for (int64_t index : arguments)
    wrt.push_back(function.getArgument(index));
  builder = &insertion;
  nodeRows = &rows;
}

Value Reverse::only(NodesWithEdges kept, Value value) {
  RowsAttr own = rowsOf(value);
  if (!own || onEdges(value.getType()))
    return value;
  if (own != kept.nodes)
    value = insertion.createOrFold<PrefixOp>(
        getLoc(), withRows(value.getType(), kept.nodes), value);
  TypedAttr zero = insertion.getZeroAttr(getElementTypeOrSelf(value.getType()));
  value = FillIsolatedOp::create(insertion, getLoc(), value.getType(), kept.end,
                                 value, zero);
  if (own == kept.nodes)
    return value;
  return PadRowsOp::create(insertion, getLoc(), withRows(value.getType(), own),
                           value);
}

/// Parameters are the same for all rows, so they are needed as they are.
Value Reverse::onlyFactor(NodesWithEdges kept, Value factor) {
  auto broadcast = factor.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return only(kept, factor);
  Value input = broadcast.getInput(), masked = only(kept, input);
  return input == masked ? factor
                         : BroadcastOp::create(insertion, getLoc(),
                                               factor.getType(), masked);
}

/// `more`, without what comes from rows that are not kept. `gradient` is 0
/// there, so a finite factor is enough; and sums of products stay as they are.
Value Reverse::onlyGradient(NodesWithEdges kept, Value operand, Value more) {
  OpBuilder::InsertionGuard guard(insertion);
  if (auto contract = more.getDefiningOp<ContractRowsOp>()) {
    insertion.setInsertionPoint(contract);
    contract.getLeftMutable().assign(only(kept, contract.getLeft()));
  }
  auto product = more.getDefiningOp<arith::MulFOp>();
  if (product && product.getLhs() == gradient) {
    insertion.setInsertionPoint(product);
    product.getRhsMutable().assign(onlyFactor(kept, product.getRhs()));
    return more;
  }
  // Rows of another graph have other edges: `gradient` was masked already.
  return rowsOf(operand) == rowsOf(op->getResult(0)) ? only(kept, more) : more;
}

/// The sum of two gradients; those of 16 bits are added in f32.
static Value addInF32(OpBuilder &builder, Location loc, Value a, Value b) {
  Type type = a.getType();
  if (!isStorageOnly(type))
    return arith::AddFOp::create(builder, loc, a, b);
  Type wide = inFormat(type, builder.getF32Type());
  Value sum = arith::AddFOp::create(
      builder, loc, arith::ExtFOp::create(builder, loc, wide, a),
      arith::ExtFOp::create(builder, loc, wide, b));
  return arith::TruncFOp::create(builder, loc, type, sum);
}

void Reverse::add(Value operand, Value more) {
  if (std::optional<NodesWithEdges> kept = inUse.keptFor(op, operand))
    more = onlyGradient(*kept, operand, more);
  Value &sum = gradients[operand];
  sum = sum ? addInF32(insertion, getLoc(), sum, more) : more;
}

LogicalResult Reverse::markActive() {
  active.insert_range(wrt);
  for (Operation &of : function.getBody().front().without_terminator()) {
    bool depends = llvm::any_of(of.getOperands(),
                                [&](Value operand) { return wants(operand); });
    if (!depends)
      continue;
    auto isNarrow = [&](Value operand) {
      return wants(operand) && isStorageOnly(operand.getType());
    };
    if (!isa<arith::ExtFOp>(of) && llvm::any_of(of.getOperands(), isNarrow))
      return of.emitError("has no gradient in ")
             << getElementTypeOrSelf(of.getOperand(0).getType())
             << "; widen its operands with arith.extf";
    const Derivative *derivative = findDerivative(of.getName().getStringRef());
    if (!derivative)
      return of.emitError("has no derivative yet");
    if (derivative->kind == Derivative::Refused)
      return of.emitError("cannot be differentiated: ") << derivative->reason;
    if (derivative->kind == Derivative::Known)
      active.insert_range(of.getResults());
  }
  return success();
}

void Reverse::reverse(Operation *of) {
  Value result = of->getResult(0);
  gradient = gradients.lookup(result);
  if (!gradient || !active.contains(result))
    return;
  op = of;
  if (Operation *maker = gradient.getDefiningOp();
      maker && !forward.contains(maker))
    setStoredFormat(maker, storedFormat(of));
  std::optional<NodesWithEdges> kept = inUse.shown(result);
  bool leaves = llvm::any_of(of->getOperands(), [&](Value operand) {
    return wants(operand) && !inUse.shown(operand);
  });
  if (kept && leaves)
    gradient = only(*kept, gradient);
  findDerivative(of->getName().getStringRef())->apply(*this);
}

FailureOr<SmallVector<Value>> Reverse::run() {
  Block &block = function.getBody().front();
  if (failed(markActive()))
    return failure();
  auto ops =
      llvm::to_vector(llvm::make_pointer_range(block.without_terminator()));
  forward.insert_range(ops);
  op = block.getTerminator();
  for (Value result : op->getOperands())
    if (isFloat(result))
      add(result, block.addArgument(result.getType(), result.getLoc()));
  for (Operation *of : llvm::reverse(ops))
    reverse(of);
  op = block.getTerminator();
  SmallVector<Value> results;
  for (Value argument : wrt) {
    Value result = gradients.lookup(argument);
    results.push_back(
        result ? result : Value(term(argument).full(argument.getType(), 0.0)));
  }
  return results;
}

/// Saves `row` in the format that torch has it in. Who computes with it does so
/// with the rounded row, in both halves.
static void roundWhereAllowed(Value &row) {
  Type format = storedFormat(row.getDefiningOp());
  if (!format)
    return;
  OpBuilder builder(row.getContext());
  builder.setInsertionPointAfterValue(row);
  Value rounded = arith::TruncFOp::create(builder, row.getLoc(),
                                          inFormat(row.getType(), format), row);
  Value widened =
      arith::ExtFOp::create(builder, row.getLoc(), row.getType(), rounded);
  row.replaceAllUsesExcept(widened, rounded.getDefiningOp());
  row = rounded;
}

static void returnValues(func::FuncOp function, ValueRange values) {
  Block &block = function.getBody().front();
  block.getTerminator()->setOperands(values);
  eraseDeadOps(function);
}

static void updateType(func::FuncOp function) {
  Block &block = function.getBody().front();
  function.setFunctionType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(),
                        block.getTerminator()->getOperandTypes()));
}

static void remarkSaved(Value value) {
  using remark::RemarkOpts;
  remark::passed(value.getLoc(),
                 RemarkOpts::name("differentiate").category("mp"))
      << "saved for the gradients"
      << remark::metric("BytesPerNode", bytesPerRow(value.getType()));
}

/// Leaves the results, and what is saved.
static void keepForward(func::FuncOp function, ArrayRef<Value> saved,
                        unsigned firstGradient) {
  Block &block = function.getBody().front();
  SmallVector<Value> results(block.getTerminator()->getOperands());
  llvm::append_range(results, saved);
  llvm::for_each(saved, remarkSaved);
  returnValues(function, results);
  block.eraseArguments(firstGradient, block.getNumArguments() - firstGradient);
  updateType(function);
}

/// Leaves the gradients, made from what was saved.
static void keepBackward(func::FuncOp function, ArrayRef<Value> saved,
                         ArrayRef<Value> gradients, unsigned firstGradient) {
  Block &block = function.getBody().front();
  // A gradient may be a saved value itself.
  block.getTerminator()->setOperands(gradients);
  for (Value value : saved)
    value.replaceAllUsesWith(
        block.insertArgument(firstGradient++, value.getType(), value.getLoc()));
  eraseDeadOps(function);
  updateType(function);
}

namespace {
struct Differentiate : gossamer::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (failed(verifyOptions(function)))
      return signalPassFailure();
    unsigned firstGradient = function.getNumArguments();
    eraseDeadOps(function);
    Reverse reverse(function, wrt);
    reverse.wideIndex = wideIndex;
    FailureOr<SmallVector<Value>> gradients = reverse.run();
    if (failed(gradients))
      return signalPassFailure();
    SmallVector<Value> saved;
    if (save)
      saved = savedRows(function, *gradients, firstGradient);
    if (mode == Half::Forward)
      keepForward(function, saved, firstGradient);
    else
      keepBackward(function, saved, *gradients, firstGradient);
  }

  LogicalResult verifyOptions(func::FuncOp function) {
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("expects one block");
    for (int64_t index : wrt)
      if (index < 0 || index >= function.getNumArguments() ||
          !isFloat(function.getArgument(index)))
        return function.emitOpError("has no floating point argument ")
               << index << " to differentiate";
    return success();
  }

  /// Choosing needs all that the gradients are made from, and nothing else.
  static SmallVector<Value> savedRows(func::FuncOp function,
                                      SmallVector<Value> &gradients,
                                      unsigned firstGradient) {
    Operation *terminator = function.getBody().front().getTerminator();
    size_t numResults = terminator->getNumOperands();
    terminator->insertOperands(numResults, gradients);
    decomposeSoftmax(function);
    eraseDeadOps(function);
    foldMasksIntoPositions(function, firstGradient);
    gradients.assign(terminator->operand_begin() + numResults,
                     terminator->operand_end());
    SmallVector<Value> saved = chooseSavedRows(function, firstGradient);
    llvm::for_each(saved, roundWhereAllowed);
    terminator->eraseOperands(numResults, gradients.size());
    return saved;
  }
};
} // namespace
