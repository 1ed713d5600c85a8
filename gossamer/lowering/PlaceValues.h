// Where the values of a kernel are in memory.
#ifndef GOSSAMER_LOWERING_PLACEVALUES_H
#define GOSSAMER_LOWERING_PLACEVALUES_H

#include "gossamer/lowering/Residency.h"

namespace gossamer::lowering {

/// Fills the places, totals, blocks and sizes of scratch of `plan`.
void placeValues(mp::KernelOp kernel, const Residency &residency, Plan &plan);

/// A place of `kind` as large as a row of `value`, without address.
Place placeFor(mlir::Value value, Place::Kind kind);

} // namespace gossamer::lowering

#endif
