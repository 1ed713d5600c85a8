#ifndef GOSSAMER_PASSES_PASSES_H
#define GOSSAMER_PASSES_PASSES_H

#include "gossamer/passes/Differentiate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace gossamer {
#define GEN_PASS_DECL
#include "gossamer/passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

#endif
