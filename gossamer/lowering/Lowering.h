// From mp.kernel to machine-level functions in the LLVM dialect.
#ifndef GOSSAMER_LOWERING_LOWERING_H
#define GOSSAMER_LOWERING_LOWERING_H

#include "gossamer/ir/MpDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace gossamer::lowering {

/// What the generated code may assume of the machine.
struct KernelOptions {
  int64_t vectorBytes = 32; // of a full vector register
  int64_t accumulators = 8; // registers that a tile may keep
  bool hasFma = true;
  bool hasBf16 = false;   // instructions that round to bf16
  bool hasF16 = true;     // and that convert from and to f16
  bool wideIndex = false; // int64 graph arrays
};

/// What the caller of a kernel has to provide.
struct KernelInfo {
  std::string symbol;
  bool usesEdges = false;
  int64_t rowWork = 1; // of a row without edges; an edge is 1
  int64_t scratchBytes = 0;
  int64_t scratchBytesPerDegree = 0;
  int64_t gatheredBytes = 0; // KernelStep says what these are
  int64_t phases = 0;
  int64_t partialBytes = 0;
};

/// Emits `kernel` as function `symbol` into `module`, with the signature of
/// program/Abi.h, in scf, vector, arith, math and LLVM ops. `kernel` is put
/// into the form that planning expects, and stays. Errors are reported at the
/// op.
mlir::FailureOr<KernelInfo> emitKernel(mp::KernelOp kernel,
                                       llvm::StringRef symbol,
                                       mlir::ModuleOp module,
                                       const KernelOptions &options);

/// Attributes of a lowered mp.kernel.
inline constexpr llvm::StringLiteral kSymbolAttr = "mp.symbol";
inline constexpr llvm::StringLiteral kUsesEdgesAttr = "mp.uses_edges";
inline constexpr llvm::StringLiteral kRowWorkAttr = "mp.row_work";
inline constexpr llvm::StringLiteral kScratchAttr = "mp.scratch_bytes";
inline constexpr llvm::StringLiteral kScratchPerDegreeAttr =
    "mp.scratch_bytes_per_degree";
inline constexpr llvm::StringLiteral kGatheredBytesAttr = "mp.gathered_bytes";
inline constexpr llvm::StringLiteral kPhasesAttr = "mp.phases";
inline constexpr llvm::StringLiteral kPartialBytesAttr = "mp.partial_bytes";

/// What these attributes say.
KernelInfo kernelInfo(mp::KernelOp kernel);

/// Emits the kernels of a module, beside the functions that use them.
void addLowerKernels(mlir::OpPassManager &passes, const KernelOptions &options);

/// Turns emitted kernels, in a module of their own, into the LLVM dialect.
void addLowerToLLVM(mlir::OpPassManager &passes, const KernelOptions &options);

} // namespace gossamer::lowering

#endif
