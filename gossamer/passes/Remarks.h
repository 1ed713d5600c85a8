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

} // namespace gossamer

#endif
