// Partial results of one sum, in memory, and their sum.
//
// How many there are depends on shapes and on the graph, never on the threads,
// and they are added in order. So the bits are the same for any number of
// threads, and rounding errors grow with the number of parts and the size of
// one, not with the number of terms.
#ifndef GOSSAMER_RUNTIME_PARTIALSUMS_H
#define GOSSAMER_RUNTIME_PARTIALSUMS_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/ParallelFor.h"

namespace gossamer {

/// How many parts of `bytes` each a sum may have, from 1 to `most`: together
/// they take at most 4 MiB, or 16 MiB where that is for at most 64 parts. With
/// fewer parts than threads some threads wait, which happens only where one
/// part is a large matrix.
int64_t affordableParts(int64_t bytes, int64_t most);

Error noMemoryForParts(int64_t bytes);

/// out[i] = the sum over `count` parts of parts[part * stride + i], for i below
/// `size`, of F32 or F64.
void addParts(DType dtype, const void *parts, int64_t count, int64_t stride,
              int64_t size, void *out, ParallelFor &parallel);

} // namespace gossamer

#endif
