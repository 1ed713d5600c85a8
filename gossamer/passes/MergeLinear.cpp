// Add weights, not products.
//
//   before: %a = mp.linear %x, %P         after: %W = arith.subf %P, %T
//           %b = mp.linear %x, %T                %y = mp.linear %x, %W
//           %y = arith.subf %a, %b
//
// Equal in real arithmetic; reassociates. It pays: a weight has few rows. The
// sum of tables goes, and the product whose only use it was.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

namespace gossamer {
#define GEN_PASS_DEF_MERGELINEAR
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Replaces a sum or difference of two products of one table.
static void merge(Operation *sum) {
  auto left = sum->getOperand(0).getDefiningOp<LinearOp>();
  auto right = sum->getOperand(1).getDefiningOp<LinearOp>();
  if (!left || !right || left.getInput() != right.getInput() ||
      !(left->hasOneUse() || right->hasOneUse()))
    return;
  OpBuilder builder(sum);
  IRMapping weights;
  weights.map(sum->getOperand(0), left.getWeight());
  weights.map(sum->getOperand(1), right.getWeight());
  Value weight = builder.clone(*sum, weights)->getResult(0);
  weight.setType(left.getWeight().getType());
  Value product =
      LinearOp::create(builder, sum->getLoc(), sum->getResult(0).getType(),
                       left.getInput(), weight);
  setStoredFormat(product.getDefiningOp(), storedFormat(left));
  remarkApplied(sum->getLoc(), "merge-linear",
                "adds weights instead of products", /*reassociates=*/true);
  sum->getResult(0).replaceAllUsesWith(product);
}

namespace {
struct MergeLinear : gossamer::impl::MergeLinearBase<MergeLinear> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (isa<arith::AddFOp, arith::SubFOp>(op))
        merge(op);
    });
    eraseDeadOps(getOperation());
  }
};
} // namespace
