#ifndef GOSSAMER_LOWERING_PREPAREKERNEL_H
#define GOSSAMER_LOWERING_PREPAREKERNEL_H

#include "gossamer/ir/MpDialect.h"

namespace gossamer::lowering {

/// Writes the body of `kernel` in the ops that planning knows.
void prepareKernel(mp::KernelOp kernel);

} // namespace gossamer::lowering

#endif
