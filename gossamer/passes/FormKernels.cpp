// Group ops into passes over the rows of one node set.
//
//   before: %m = mp.gather src %x
//           %p = arith.mulf %m, %w
//           %h = mp.reduce sum dst %p
//   after:  %h = mp.kernel over nodes by dst (%a = %x, %b = %w) {
//             the same ops
//             mp.yield
//           }
//
// Exact: the same ops on the same rows. KernelPlan decides which op goes where;
// this file moves them. It pays because values on edges stay inside a kernel:
// none of them is stored, except those that the function returns.

#include "gossamer/passes/KernelPlan.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace gossamer {
#define GEN_PASS_DEF_FORMKERNELS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static void remarkNotStored(Operation *op) {
  using remark::RemarkOpts;
  remark::passed(op->getLoc(), RemarkOpts::name("form-kernels").category("mp"))
      << "not stored: lives inside a kernel"
      << remark::metric("BytesPerEdge",
                        bytesPerRow(op->getResult(0).getType()));
}

static void remarkKernel(const PlannedKernel &plan, Location location) {
  using remark::RemarkOpts;
  int64_t ops = plan.body.size();
  int64_t writes = plan.outputs.size();
  remark::passed(location, RemarkOpts::name("form-kernels").category("mp"))
      << "fused into one kernel" << remark::metric("Ops", ops)
      << remark::metric("Writes", writes);
  for (Operation *op : plan.body)
    if (onEdges(op->getResult(0).getType()) &&
        !plan.outputs.contains(op->getResult(0)))
      remarkNotStored(op);
}

/// The user's lines that a kernel computes the results of.
static Location locationOf(const PlannedKernel &plan, MLIRContext *context) {
  SmallVector<Location> lines;
  for (Value output : plan.outputs)
    lines.push_back(output.getLoc());
  return FusedLoc::get(context, lines);
}

/// Builds the kernel; `tables` maps values to the tables that hold them, and
/// learns where the outputs are.
static void buildKernel(OpBuilder &builder, const PlannedKernel &plan,
                        IRMapping &tables) {
  Location location = locationOf(plan, builder.getContext());
  SmallVector<Value> inputs;
  for (Value input : plan.inputs)
    inputs.push_back(tables.lookupOrDefault(input));
  TypeRange types = ValueRange(plan.outputs.getArrayRef()).getTypes();
  auto kernel = KernelOp::create(builder, location, types, inputs,
                                 plan.visit.rows, plan.visit.end);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&kernel.getBody());
  IRMapping inside;
  for (Value input : plan.inputs)
    inside.map(input, body->addArgument(input.getType(), input.getLoc()));
  for (Operation *op : plan.body)
    builder.clone(*op, inside);
  SmallVector<Value> results;
  for (Value output : plan.outputs)
    results.push_back(inside.lookup(output));
  YieldOp::create(builder, location, results);
  for (auto [output, result] : llvm::zip(plan.outputs, kernel.getOutputs()))
    tables.map(output, result);
  remarkKernel(plan, location);
}

/// Ops outside kernels, by the level from which on they can run.
static SmallVector<SmallVector<Operation *>> outsideByLevel(Block &block,
                                                            KernelPlan &plan) {
  SmallVector<SmallVector<Operation *>> levels;
  for (Operation &op : block.without_terminator()) {
    if (!isOutsideKernels(&op))
      continue;
    size_t level = plan.available(op.getResult(0));
    levels.resize(std::max(levels.size(), level + 1));
    levels[level].push_back(&op);
  }
  return levels;
}

static void formKernels(func::FuncOp function) {
  Block &block = function.getBody().front();
  KernelPlan plan(function);
  SmallVector<SmallVector<Operation *>> outside = outsideByLevel(block, plan);
  Operation *terminator = block.getTerminator();
  OpBuilder builder(terminator);
  IRMapping tables;
  ArrayRef<PlannedKernel> kernels = plan.getKernels();
  auto readTables = [&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(tables.lookupOrDefault(operand.get()));
  };
  for (size_t level = 0; level < outside.size() || !kernels.empty(); ++level) {
    if (level < outside.size())
      for (Operation *op : outside[level]) {
        op->moveBefore(terminator);
        readTables(op);
      }
    for (; !kernels.empty() &&
           kernels.front().level == static_cast<int64_t>(level);
         kernels = kernels.drop_front())
      buildKernel(builder, kernels.front(), tables);
  }
  readTables(terminator);
  eraseDeadOps(function);
}

namespace {
struct FormKernels : gossamer::impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("expects one block");
      return signalPassFailure();
    }
    eraseDeadOps(function);
    formKernels(function);
  }
};
} // namespace
