// Keep values in f32 that torch rounds to 16 bits after each op.
//
//   before: %y = arith.mulf %a, %b              after: %y = arith.mulf %a, %b
//           %n = arith.truncf %y to bf16                  {mp.stored_as = bf16}
//           %w = arith.extf %n to f32                  %z = arith.addf %y, %c
//           %z = arith.addf %w, %c
//
// More exact than torch, not equal to it: reassociates. It pays because a
// rounding costs as much as the op itself, and stands between ops that other
// passes match. The attribute remembers the format, for store-narrow.

#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/StoredFormat.h"

#include "gossamer/ir/MpDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace gossamer {
#define GEN_PASS_DEF_DROPROUNDINGS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;

/// Lets the users of what `rounding` rounds read it as it was.
static void drop(arith::TruncFOp rounding) {
  Value exact = rounding.getIn();
  Type format = getElementTypeOrSelf(rounding.getType());
  SmallVector<arith::ExtFOp> widenings;
  for (Operation *user : rounding->getUsers())
    if (auto widening = dyn_cast<arith::ExtFOp>(user))
      if (widening.getType() == exact.getType())
        widenings.push_back(widening);
  // A value that is read unrounded, too, is one of f32 to the user.
  Operation *op = exact.getDefiningOp();
  if (op && exact.hasOneUse())
    setStoredFormat(op, format);
  if (!widenings.empty())
    remarkApplied(rounding.getLoc(), "drop-roundings",
                  "not rounded between ops of a kernel",
                  /*reassociates=*/true);
  for (arith::ExtFOp widening : widenings) {
    widening.replaceAllUsesWith(exact);
    widening.erase();
  }
  if (rounding.use_empty())
    rounding.erase();
}

namespace {
struct DropRoundings : gossamer::impl::DropRoundingsBase<DropRoundings> {
  void runOnOperation() override {
    SmallVector<arith::TruncFOp> roundings;
    getOperation().walk([&](arith::TruncFOp op) {
      if (mp::isStorageOnly(op.getType()))
        roundings.push_back(op);
    });
    for (arith::TruncFOp rounding : roundings)
      drop(rounding);
  }
};
} // namespace
