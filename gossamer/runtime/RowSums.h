// Sums over all rows of a table: gradients of what every row shares.
//
// Rows are cut into blocks whose number depends on the shape alone. Each block
// has a partial result; partial results are added in order. So the bits are the
// same for any number of threads, and rounding errors grow with the number of
// blocks and the size of one, not with the number of rows.
#ifndef GOSSAMER_RUNTIME_ROWSUMS_H
#define GOSSAMER_RUNTIME_ROWSUMS_H

#include "gossamer/runtime/Gemm.h"
#include "gossamer/runtime/ParallelFor.h"

namespace gossamer {

/// out[c] = sum of table[r, c] over r, for a dense table of floats. The
/// sum of BF16 or F16 is F32.
Status sumRows(DType dtype, const Matrix &table, void *out,
               ParallelFor &parallel, ScratchPool &pool);

/// out[k, o] = sum of left[r, k] * right[r, o] over r, for dense tables of
/// floats with as many rows. The result of BF16 or F16 is F32.
Status contractRows(DType dtype, const Matrix &left, const Matrix &right,
                    void *out, Gemm &gemm, ParallelFor &parallel,
                    ScratchPool &pool);

} // namespace gossamer

#endif
