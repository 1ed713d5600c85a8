// Whether numbers are those of rows of a table, before a kernel reads them.
#ifndef GOSSAMER_RUNTIME_INDEXCHECK_H
#define GOSSAMER_RUNTIME_INDEXCHECK_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/ParallelFor.h"

namespace gossamer {

/// Does `step` for `rows` numbers of I32 or I64 at `index`. The error names the
/// first that is out of range.
Status checkIndex(const CheckIndexStep &step, DType dtype, const void *index,
                  int64_t rows, ParallelFor &parallel);

} // namespace gossamer

#endif
