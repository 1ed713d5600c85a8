// Dense copies of strided tables.
#ifndef GOSSAMER_RUNTIME_STRIDEDCOPY_H
#define GOSSAMER_RUNTIME_STRIDEDCOPY_H

#include "gossamer/runtime/ParallelFor.h"

#include <cstdint>
#include <span>

namespace gossamer {

/// Writes the elements of `source`, of `elementBytes` each, to `target` in
/// row-major order. Strides count elements.
void copyToDense(void *target, const void *source, int64_t elementBytes,
                 std::span<const int64_t> shape,
                 std::span<const int64_t> strides, ParallelFor &parallel);

} // namespace gossamer

#endif
