// What the compiler has to say: the first error, and the remarks of passes.
#ifndef GOSSAMER_CODEGEN_REPORT_H
#define GOSSAMER_CODEGEN_REPORT_H

#include "gossamer/codegen/Compile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

namespace gossamer::codegen {

/// The user's file and line in `location`, wherever they are inside it; null
/// when there are none.
mlir::FileLineColLoc userLocation(mlir::Location location);

/// Collects errors of `context` while it lives. Nothing is printed.
class ErrorCollector {
public:
  ErrorCollector(mlir::MLIRContext &context, CompileError &error);

private:
  mlir::ScopedDiagnosticHandler handler;
};

/// Appends the remarks of passes to `remarks`, which must outlive `context`.
void collectRemarks(mlir::MLIRContext &context, std::string &remarks);

} // namespace gossamer::codegen

#endif
