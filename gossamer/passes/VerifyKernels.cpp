// Check that only kernels, products, views and prefixes are left.
//
// This is what lowering may rely on:
// - a function is one block of mp.kernel, mp.linear that is not in_kernel,
//   mp.contract_rows, mp.sum_rows, mp.prefix, mp.pad_rows,
//   views (mp.reshape; mp.transpose and mp.slice of parameters) and the return;
// - the body of a kernel is elementwise arith and math, and the mp ops listed
//   in isKernelOp; the weight of a product in a body is an input, as are the
//   seed of random numbers, the table of a lookup and an index; an outer
//   product is on edges or in_kernel.
// A function that breaks this gets an error for each op that does.

#include "gossamer/passes/KernelPlan.h"
#include "gossamer/passes/Passes.h"

namespace gossamer {
#define GEN_PASS_DEF_VERIFYKERNELS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static bool isKernelOp(Operation &op) {
  if (op.hasTrait<OpTrait::Elementwise>())
    return true;
  if (auto linear = dyn_cast<LinearOp>(op))
    return (onEdges(linear.getType()) || linear.getInKernel()) &&
           isa<BlockArgument>(linear.getWeight());
  if (auto uniform = dyn_cast<UniformOp>(op))
    return isa<BlockArgument>(uniform.getSeed());
  if (auto lookup = dyn_cast<LookupOp>(op))
    return isa<BlockArgument>(lookup.getTable()) &&
           isa<BlockArgument>(lookup.getIndex());
  if (auto sum = dyn_cast<SumByOp>(op))
    return isa<BlockArgument>(sum.getIndex());
  if (auto contract = dyn_cast<ContractRowsOp>(op))
    return contract.getInKernel() || onEdges(contract.getLeft().getType());
  return isa<GatherOp, ReduceOp, SumRowsOp, DegreeOp, IotaOp, FillOp,
             FillIsolatedOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp,
             ConcatOp, ReduceAxisOp, YieldOp>(op);
}

static LogicalResult verifyKernel(KernelOp kernel) {
  LogicalResult result = success();
  for (Operation &op : kernel.getBody().front())
    if (!isKernelOp(op))
      result = op.emitOpError("cannot be part of a kernel; an earlier pass "
                              "should have replaced it");
  return result;
}

namespace {
struct VerifyKernels : gossamer::impl::VerifyKernelsBase<VerifyKernels> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("expects one block");
      return signalPassFailure();
    }
    for (Operation &op : function.getBody().front())
      if (failed(verifyOp(op)))
        signalPassFailure();
  }

  LogicalResult verifyOp(Operation &op) {
    if (auto kernel = dyn_cast<KernelOp>(op))
      return verifyKernel(kernel);
    if (isa<func::ReturnOp>(op) || isOutsideKernels(&op) || isOnTables(op))
      return success();
    return op.emitOpError("is not in a kernel; run form-kernels");
  }

  /// What a kernel writes is as good as other tables.
  static bool isOnTables(Operation &op) {
    return isa<ReshapeOp, SumRowsOp, ContractRowsOp>(op) ||
           (isa<TransposeOp, SliceOp>(op) && !rowsOf(op.getResult(0)));
  }
};
} // namespace
