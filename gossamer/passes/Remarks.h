// What passes tell the user, at the user's file and line.
#ifndef GOSSAMER_PASSES_REMARKS_H
#define GOSSAMER_PASSES_REMARKS_H

#include "mlir/IR/Remarks.h"

namespace gossamer {

/// Says that `pass` did `what` at `location`. `reassociates`: results may
/// differ in the last bits.
inline void remarkApplied(mlir::Location location, llvm::StringRef pass,
                          llvm::StringRef what, bool reassociates = false) {
  using namespace mlir::remark;
  auto remark = passed(location, RemarkOpts::name(pass).category("mp"));
  remark << what;
  if (reassociates)
    remark << metric("Numerics", "reassociates");
}

/// Says that `pass` had to do `what` at `location`, which costs.
inline void remarkMissed(mlir::Location location, llvm::StringRef pass,
                         llvm::StringRef what) {
  using namespace mlir::remark;
  missed(location, RemarkOpts::name(pass).category("mp")) << what;
}

} // namespace gossamer

#endif
