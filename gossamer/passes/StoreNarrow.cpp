// Store and read tables in 16 bits where torch has them so.
//
//   before: %w = arith.extf %x : f32            after: %m = mp.gather src %x
//           %m = mp.gather src %w                      %w = arith.extf %m : f32
//
//   before: %h = mp.linear %a, %b               after: %n = mp.linear of bf16
//                {mp.stored_as = bf16}                 %h = arith.extf %n
//
// So do products of the library whose factors are stored in 16 bits, and rows
// that one kernel writes for another. Widening what was copied is exact.
// Rounding happens only where it is allowed (StoredFormat.h), at most as often
// as in torch. Products of 16-bit factors are summed in f32.
//
// It pays wherever a table is read once per edge: half the bytes.

#include "gossamer/passes/KernelPlan.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace gossamer {
#define GEN_PASS_DEF_STORENARROW
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// The 16-bit table that `value` is read from, or null.
static Value narrowSource(Value value) {
  auto widening = value.getDefiningOp<arith::ExtFOp>();
  return widening && isStorageOnly(widening.getIn().getType())
             ? widening.getIn()
             : Value();
}

/// The format in which `value` is, or may be, in memory; null for its own.
static Type narrowFormat(Value value) {
  if (Value source = narrowSource(value))
    return getElementTypeOrSelf(source.getType());
  return storedFormat(value.getDefiningOp());
}

/// `value` in `format`.
static Value narrowed(OpBuilder &builder, Value value, Type format) {
  Value source = narrowSource(value);
  if (source && getElementTypeOrSelf(source.getType()) == format)
    return source;
  return arith::TruncFOp::create(builder, value.getLoc(),
                                 inFormat(value.getType(), format), value);
}

/// Operands and results of `op` in `format`.
static void narrowProduct(LinearOp op, Type format) {
  OpBuilder builder(op);
  Type wide = op.getType();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(narrowed(builder, operand, format));
  Value product = LinearOp::create(builder, op.getLoc(), inFormat(wide, format),
                                   operands[0], operands[1]);
  Value widened = arith::ExtFOp::create(builder, op.getLoc(), wide, product);
  remarkApplied(op.getLoc(), "store-narrow", "multiplies 16-bit tables");
  op.getResult().replaceAllUsesWith(widened);
  op.erase();
}

/// The format to which nothing but one rounding reads `value`, or null.
static Type onlyRoundedTo(Value value) {
  if (!value.hasOneUse())
    return {};
  auto rounding = dyn_cast<arith::TruncFOp>(*value.user_begin());
  return rounding && isStorageOnly(rounding.getType())
             ? getElementTypeOrSelf(rounding.getType())
             : Type();
}

/// The format of a product on nodes: torch's own, or that of both factors when
/// the result is rounded to it.
static Type productFormat(LinearOp op) {
  if (Type format = storedFormat(op))
    return format;
  Type format = onlyRoundedTo(op.getResult());
  bool fits = format && narrowFormat(op.getInput()) == format &&
              narrowFormat(op.getWeight()) == format;
  return fits ? format : Type();
}

static void narrowProducts(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (!isOutsideKernels(&op))
      continue;
    if (auto linear = dyn_cast<LinearOp>(op)) {
      if (Type format = productFormat(linear))
        narrowProduct(linear, format);
    } else if (auto contract = dyn_cast<ContractRowsOp>(op)) {
      Type format = narrowFormat(contract.getLeft());
      if (!format || narrowFormat(contract.getRight()) != format)
        continue;
      OpBuilder builder(contract);
      for (OpOperand &operand : contract->getOpOperands())
        operand.set(narrowed(builder, operand.get(), format));
    }
  }
}

/// Rounds `value`, for all who read it.
static void roundForAll(Value value, Type format) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Value rounded = arith::TruncFOp::create(
      builder, value.getLoc(), inFormat(value.getType(), format), value);
  Value widened =
      arith::ExtFOp::create(builder, value.getLoc(), value.getType(), rounded);
  value.replaceAllUsesExcept(widened, rounded.getDefiningOp());
  remarkApplied(value.getLoc(), "store-narrow", "stored in 16 bits");
}

static bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>();
  });
}

/// What kernels write for other kernels.
static void narrowRoots(func::FuncOp function) {
  KernelPlan plan(function);
  SetVector<Value> roots;
  for (const PlannedKernel &kernel : plan.getKernels())
    roots.insert_range(kernel.outputs);
  for (Value root : roots) {
    Type format = storedFormat(root.getDefiningOp());
    if (format && rowsOf(root) && !isReturned(root) && !onlyRoundedTo(root))
      roundForAll(root, format);
  }
}

static bool movesRows(Operation &op) {
  return isa<GatherOp, PrefixOp, PadRowsOp, ReshapeOp, TransposeOp, SliceOp>(
      op);
}

/// Moves 16-bit rows, and widens them where they arrive.
static void widenLate(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    Value source = movesRows(op) ? narrowSource(op.getOperand(0)) : Value();
    if (!source)
      continue;
    OpBuilder builder(&op);
    Operation *moved = builder.clone(op);
    moved->setOperand(0, source);
    Value rows = moved->getResult(0);
    rows.setType(
        inFormat(rows.getType(), getElementTypeOrSelf(source.getType())));
    Value widened = arith::ExtFOp::create(builder, op.getLoc(),
                                          op.getResult(0).getType(), rows);
    op.getResult(0).replaceAllUsesWith(widened);
    op.erase();
  }
}

/// False when all that is computed here is as wide as its tables.
static bool hasNarrowTables(func::FuncOp function) {
  auto isNarrow = [](Value value) { return isStorageOnly(value.getType()); };
  return llvm::any_of(function.getArguments(), isNarrow) ||
         llvm::any_of(function.getBody().front(), [&](Operation &op) {
           return storedFormat(&op) || llvm::any_of(op.getResults(), isNarrow);
         });
}

namespace {
struct StoreNarrow : gossamer::impl::StoreNarrowBase<StoreNarrow> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!hasNarrowTables(function))
      return;
    eraseDeadOps(function);
    narrowProducts(function);
    eraseDeadOps(function);
    narrowRoots(function);
    widenLate(function);
    eraseDeadOps(function);
  }
};
} // namespace
