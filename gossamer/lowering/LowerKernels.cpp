// The passes of this folder, in order.

#include "gossamer/lowering/Lowering.h"
#include "gossamer/lowering/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

namespace gossamer::lowering {
#define GEN_PASS_DEF_LOWERKERNELS
#include "gossamer/lowering/Passes.h.inc"
} // namespace gossamer::lowering

namespace {

struct LowerKernels : gossamer::lowering::impl::LowerKernelsBase<LowerKernels> {
  using LowerKernelsBase::LowerKernelsBase;

  void runOnOperation() override {
    KernelOptions options;
    options.vectorBytes = vectorBytes;
    options.accumulators = accumulators;
    options.wideIndex = wideIndex;
    SmallVector<mp::KernelOp> kernels;
    getOperation().walk(
        [&](mp::KernelOp kernel) { kernels.push_back(kernel); });
    for (auto [index, kernel] : llvm::enumerate(kernels)) {
      std::string symbol = "kernel_" + std::to_string(index);
      FailureOr<KernelInfo> info =
          emitKernel(kernel, symbol, getOperation(), options);
      if (failed(info))
        return signalPassFailure();
      annotate(kernel, *info);
    }
  }

private:
  static void annotate(mp::KernelOp kernel, const KernelInfo &info) {
    Builder b(kernel.getContext());
    kernel->setAttr(kSymbolAttr, b.getStringAttr(info.symbol));
    kernel->setAttr(kUsesEdgesAttr, b.getBoolAttr(info.usesEdges));
    kernel->setAttr(kRowWorkAttr, b.getI64IntegerAttr(info.rowWork));
    kernel->setAttr(kScratchAttr, b.getI64IntegerAttr(info.scratchBytes));
    kernel->setAttr(kScratchPerDegreeAttr,
                    b.getI64IntegerAttr(info.scratchBytesPerDegree));
    kernel->setAttr(kGatheredBytesAttr,
                    b.getI64IntegerAttr(info.gatheredBytes));
    kernel->setAttr(kPhasesAttr, b.getI64IntegerAttr(info.phases));
    kernel->setAttr(kPartialBytesAttr, b.getI64IntegerAttr(info.partialBytes));
  }
};

} // namespace

KernelInfo lowering::kernelInfo(mp::KernelOp kernel) {
  KernelInfo info;
  info.symbol = kernel->getAttrOfType<StringAttr>(kSymbolAttr).str();
  info.usesEdges = kernel->getAttrOfType<BoolAttr>(kUsesEdgesAttr).getValue();
  info.rowWork = kernel->getAttrOfType<IntegerAttr>(kRowWorkAttr).getInt();
  info.scratchBytes = kernel->getAttrOfType<IntegerAttr>(kScratchAttr).getInt();
  info.scratchBytesPerDegree =
      kernel->getAttrOfType<IntegerAttr>(kScratchPerDegreeAttr).getInt();
  info.gatheredBytes =
      kernel->getAttrOfType<IntegerAttr>(kGatheredBytesAttr).getInt();
  info.phases = kernel->getAttrOfType<IntegerAttr>(kPhasesAttr).getInt();
  info.partialBytes =
      kernel->getAttrOfType<IntegerAttr>(kPartialBytesAttr).getInt();
  return info;
}

void lowering::addLowerKernels(OpPassManager &passes,
                               const KernelOptions &options) {
  LowerKernelsOptions kernels;
  kernels.vectorBytes = options.vectorBytes;
  kernels.accumulators = options.accumulators;
  kernels.wideIndex = options.wideIndex;
  passes.addPass(createLowerKernels(kernels));
}

void lowering::addLowerToLLVM(OpPassManager &passes,
                              const KernelOptions &options) {
  passes.addPass(createLowerConversions({options.hasBf16, options.hasF16}));
  passes.addPass(createLowerMath({options.hasFma}));
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}
