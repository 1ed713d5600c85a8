// Random numbers as a function of a counter: Philox4x32-10.
//
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011. Ten rounds of two 32 x 32 bit products; no state, so any lane of any
// vector can have any number of the sequence.
#ifndef GOSSAMER_LOWERING_PHILOX_H
#define GOSSAMER_LOWERING_PHILOX_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <array>

namespace gossamer::lowering {

/// Four words of 32 bits, in each lane.
using Words = std::array<mlir::Value, 4>;

/// The words of each lane's `counter` (i32, or vectors of i32) under the key
/// `seed`, a scalar i64.
Words philox(mlir::ImplicitLocOpBuilder &b, Words counter, mlir::Value seed);

/// The lower and the upper 32 bits of a scalar i64.
std::array<mlir::Value, 2> halves(mlir::ImplicitLocOpBuilder &b,
                                  mlir::Value number);

} // namespace gossamer::lowering

#endif
