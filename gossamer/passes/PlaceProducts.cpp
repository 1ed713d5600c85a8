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
// It pays for tall tables and weights that stay in the cache, by the sizes
// below. Beyond them the library gains more by packing both factors than the
// kernel does by saving two passes over memory.

#include "gossamer/ir/MpDialect.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace gossamer {
#define GEN_PASS_DEF_PLACEPRODUCTS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// The largest weight, in bytes, for which kernels are faster.
static constexpr int64_t kMaxWeightBytes = int64_t(256) << 10;

static bool isFloatOrDouble(Type type) { return type.isF32() || type.isF64(); }

/// True for products that kernels can compute.
static bool isOnNodes(LinearOp linear) {
  Type type = linear.getType();
  return rowsOf(type) && !onEdges(type) && featureSize(type) > 0 &&
         featureSize(linear.getInput().getType()) > 0 &&
         isFloatOrDouble(getElementTypeOrSelf(type));
}

static bool isSmallEnough(LinearOp linear) {
  Type weight = linear.getWeight().getType();
  int64_t bytes = getElementTypeOrSelf(weight).getIntOrFloatBitWidth() / 8;
  return featureSize(weight) * bytes <= kMaxWeightBytes;
}

namespace {
struct PlaceProducts : gossamer::impl::PlaceProductsBase<PlaceProducts> {
  using PlaceProductsBase::PlaceProductsBase;

  void runOnOperation() override {
    getOperation().walk([&](LinearOp linear) {
      if (!isOnNodes(linear))
        return;
      if (bySize && !isSmallEnough(linear)) {
        remarkApplied(linear.getLoc(), "place-products",
                      "left to the library: the weight is large");
        return;
      }
      linear.setInKernel(true);
      remarkApplied(linear.getLoc(), "place-products",
                    "multiplied inside a kernel");
    });
  }
};
} // namespace
