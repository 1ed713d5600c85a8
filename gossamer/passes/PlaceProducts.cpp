// Decide which products of rows of nodes are computed by kernels.
//
//   before: %y = mp.linear %x, %W
//   after:  %y = mp.linear %x, %W in_kernel
//
// Exact: the same product. A product that stays as it is runs between kernels,
// by the library's own routine for matrices; its input and its result are
// tables in memory. A kernel multiplies a block of rows at a time: the rows may
// be sums over edges that it just computed, and what follows (bias, activation,
// scores of attention, the next product) reads the block while it is in the
// cache.
//
// Likewise a sum of outer products of two tables of rows, the gradient of a
// weight: a kernel that computes one of the tables adds up its own rows, and
// the table need not be for that.
//
// Tables of 16 bits are widened row by row; the library would need a copy of
// each in f32.
//
// It pays for tall tables and weights that stay in the cache, by the sizes
// below. Beyond them the library gains more by packing both factors than the
// kernel does by saving two passes over memory.

#include "gossamer/passes/KernelPlan.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"

#include "mlir/IR/TypeUtilities.h"

namespace gossamer {
#define GEN_PASS_DEF_PLACEPRODUCTS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// The largest weight, in bytes, for which kernels are faster.
static constexpr int64_t kMaxWeightBytes = int64_t(1) << 20;
/// The largest sum of outer products: a kernel adds to all of it every few
/// rows, and each part of the rows has its own.
static constexpr int64_t kMaxTotalBytes = int64_t(64) << 10;

static int64_t bytesOf(Type table) {
  return featureSize(table) *
         (getElementTypeOrSelf(table).getIntOrFloatBitWidth() / 8);
}

/// True when kernels can compute a product with the rows `input` that gives
/// `result`.
static bool canBeInKernel(Value input, Type result) {
  Type element = getElementTypeOrSelf(result);
  return rowsOf(input) && !onEdges(input.getType()) &&
         featureSize(input.getType()) > 0 && featureSize(result) > 0 &&
         (element.isF32() || element.isF64());
}

namespace {
struct PlaceProducts : gossamer::impl::PlaceProductsBase<PlaceProducts> {
  using PlaceProductsBase::PlaceProductsBase;

  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      if (auto linear = dyn_cast<LinearOp>(op))
        place(linear);
      else if (auto contract = dyn_cast<ContractRowsOp>(op))
        place(contract);
    });
  }

  void place(LinearOp linear) {
    if (!canBeInKernel(linear.getInput(), linear.getType()))
      return;
    bool fits = bytesOf(linear.getWeight().getType()) <= kMaxWeightBytes;
    linear.setInKernel(fits || !bySize);
    remarkApplied(linear.getLoc(), "place-products",
                  linear.getInKernel()
                      ? "multiplied inside a kernel"
                      : "left to the library: the weight is large");
  }

  /// Products before this one are placed: it is known which rows are tables.
  void place(ContractRowsOp contract) {
    if (!canBeInKernel(contract.getLeft(), contract.getType()) ||
        llvm::all_of(contract->getOperands(), isTable))
      return;
    bool fits = bytesOf(contract.getType()) <= kMaxTotalBytes;
    contract.setInKernel(fits || !bySize);
    remarkApplied(contract.getLoc(), "place-products",
                  contract.getInKernel()
                      ? "added up inside a kernel"
                      : "left to the library: the sum is large");
  }
};
} // namespace
