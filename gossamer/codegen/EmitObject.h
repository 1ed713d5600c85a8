// From the LLVM dialect to a relocatable object in memory.
#ifndef GOSSAMER_CODEGEN_EMITOBJECT_H
#define GOSSAMER_CODEGEN_EMITOBJECT_H

#include "gossamer/codegen/Machine.h"

#include <vector>

namespace gossamer::codegen {

/// Optimises and emits `kernels`, a module in the LLVM dialect. `text`, when
/// not null, receives the optimised LLVM IR. Errors are reported at the module.
mlir::FailureOr<std::vector<uint8_t>>
emitObject(mlir::ModuleOp kernels, const Machine &machine, std::string *text);

} // namespace gossamer::codegen

#endif
