// Numbers of 16 bits in memory, and the float32 numbers that they are computed
// with.
#ifndef GOSSAMER_RUNTIME_STORAGETYPES_H
#define GOSSAMER_RUNTIME_STORAGETYPES_H

#include "gossamer/program/Program.h"

#include <cstdint>

namespace gossamer {

/// to[i] = from[i], exactly. `dtype` is BF16 or F16; `stride` is the distance
/// of two numbers of `from`, in elements.
void widen(DType dtype, const void *from, int64_t stride, int64_t count,
           float *to);

/// to[i] = from[i], rounded to nearest, ties to even. `dtype` is BF16 or F16.
void narrow(DType dtype, const float *from, int64_t count, void *to);

} // namespace gossamer

#endif
