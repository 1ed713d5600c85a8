// The table of contents of the compiler, from captured ops to kernels.

#include "gossamer/passes/Pipeline.h"
#include "gossamer/passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void gossamer::buildPipeline(OpPassManager &manager,
                             const PipelineOptions &options) {
  OpPassManager &passes = manager.nest<func::FuncOp>();
  bool fast = options.numerics == Numerics::Fast;

  // What the user wrote, on rows of nodes and edges only.
  passes.addPass(createResolveMailbox());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());

  // Less arithmetic: on the rows of nodes instead of edges. Splitting first:
  // it makes what can be hoisted.
  if (fast && options.splitLinear)
    passes.addPass(createSplitLinear());
  if (options.hoistBeforeGather)
    passes.addPass(createHoistBeforeGather());
  if (fast && options.commuteLinear)
    passes.addPass(createCommuteLinear());

  // Softmax becomes sums, and sums give up factors.
  passes.addPass(createDecomposeSoftmax());
  if (fast && options.factorFromSum)
    passes.addPass(createFactorFromSum());

  // Fewer tables: what hoisting moved too far.
  if (options.sinkBehindGather)
    passes.addPass(createSinkBehindGather());

  // One pass over memory for as many ops as possible. Equal ops first become
  // one, or kernels would compute them twice.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createFormKernels());
  passes.addPass(createVerifyKernels());
}

void gossamer::registerPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "mp-pipeline", "from captured ops to kernels", buildPipeline);
}
