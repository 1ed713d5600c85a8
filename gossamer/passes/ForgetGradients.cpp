// Drop what only differentiate reads.
//
//   before: %d = mp.detach %x                     after: mp.reduce max dst %x
//           mp.reduce max dst %d ties even
//
// Exact. It pays because equal reductions are then the same op.

#include "gossamer/ir/MpDialect.h"
#include "gossamer/passes/Passes.h"

namespace gossamer {
#define GEN_PASS_DEF_FORGETGRADIENTS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

namespace {
struct ForgetGradients : gossamer::impl::ForgetGradientsBase<ForgetGradients> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (auto reduce = dyn_cast<ReduceOp>(op)) {
        reduce.setTies(Ties::First);
      } else if (auto reduceAxis = dyn_cast<ReduceAxisOp>(op)) {
        reduceAxis.setTies(Ties::First);
      } else if (auto detach = dyn_cast<DetachOp>(op)) {
        detach.getResult().replaceAllUsesWith(detach.getInput());
        detach.erase();
      }
    });
  }
};
} // namespace
