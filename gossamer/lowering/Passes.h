#ifndef GOSSAMER_LOWERING_PASSES_H
#define GOSSAMER_LOWERING_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace gossamer::lowering {
#define GEN_PASS_DECL
#include "gossamer/lowering/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "gossamer/lowering/Passes.h.inc"
} // namespace gossamer::lowering

#endif
