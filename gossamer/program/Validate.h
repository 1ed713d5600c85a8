// What every Program promises, whoever made it.
//
// Ids name existing values; each value is an input or the result of exactly one
// step, and is defined before it is used; row sets, graphs, shapes and dtypes
// of a step fit each other; views stay inside their source. The runtime relies
// on all of it.
#ifndef GOSSAMER_PROGRAM_VALIDATE_H
#define GOSSAMER_PROGRAM_VALIDATE_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"

namespace gossamer {

Status validate(const Program &program);

/// Elements of one row: the product of the feature axes.
int64_t rowElements(const ValueInfo &value);

/// A result without rows of a kernel with rows: a sum over all of them.
bool isTotal(const KernelStep &step, const ValueInfo &result);

/// BF16 and F16, in which nothing is computed.
bool isStorageOnly(DType dtype);
/// The dtype of sums and products of tables of `dtype`: F32 for storage types.
DType computedIn(DType dtype);
int64_t elementBytes(DType dtype);
const char *dtypeName(DType dtype);
const char *rowSetName(RowSet rows);

} // namespace gossamer

#endif
