// What planning relies on beside the verifier of mp.kernel.
#ifndef GOSSAMER_LOWERING_CHECKKERNEL_H
#define GOSSAMER_LOWERING_CHECKKERNEL_H

#include "gossamer/ir/MpDialect.h"

namespace gossamer::lowering {

/// An error is reported at the op that has no lowering.
mlir::LogicalResult checkKernel(mp::KernelOp kernel);

} // namespace gossamer::lowering

#endif
