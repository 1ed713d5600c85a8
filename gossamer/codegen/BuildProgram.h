// From a function of kernels, products and views to a Program without code.
#ifndef GOSSAMER_CODEGEN_BUILDPROGRAM_H
#define GOSSAMER_CODEGEN_BUILDPROGRAM_H

#include "gossamer/program/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace gossamer::codegen {

/// Writes `function`, whose kernels are lowered, as values and steps. What is
/// no step is an error at the op.
mlir::FailureOr<Program> buildProgram(mlir::func::FuncOp function);

/// A JSON list of the arrays that the steps of `program` make: rows, shape,
/// dtype, lifetime ("output" or "temp").
std::string describeBuffers(const Program &program);

} // namespace gossamer::codegen

#endif
