// The table of contents of the compiler, from captured ops to kernels.

#include "gossamer/passes/Pipeline.h"
#include "gossamer/passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace gossamer;

/// Less arithmetic: on the rows of nodes instead of edges. Splitting first: it
/// makes what can be hoisted.
static void addLessArithmetic(OpPassManager &passes,
                              const PipelineOptions &options,
                              const CommuteLinearOptions &commuting) {
  bool fast = options.numerics == Numerics::Fast;
  if (fast && options.splitLinear)
    passes.addPass(createSplitLinear());
  if (fast && options.splitSum)
    passes.addPass(createSplitSum());
  if (fast && options.groupTerms)
    passes.addPass(createGroupTerms());
  if (options.hoistBeforeGather)
    passes.addPass(createHoistBeforeGather());
  if (fast && options.commuteLinear)
    passes.addPass(createCommuteLinear(commuting));
  if (fast && options.mergeLinear)
    passes.addPass(createMergeLinear());
  if (fast && options.commuteMax)
    passes.addPass(createCommuteMax());
}

static void addCleanup(OpPassManager &passes) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

bool PipelineOptions::leaveOut(llvm::StringRef name) {
  for (Option<bool> *option :
       {&save, &splitLinear, &splitSum, &groupTerms, &hoistBeforeGather,
        &commuteLinear, &mergeLinear, &commuteMax, &factorFromSum,
        &sinkBehindGather, &placeProducts, &productSizes}) {
    if (option->getArgStr() != name)
      continue;
    *option = false;
    return true;
  }
  return false;
}

void gossamer::buildPipeline(OpPassManager &manager,
                             const PipelineOptions &options) {
  OpPassManager &passes = manager.nest<func::FuncOp>();
  bool fast = options.numerics == Numerics::Fast;

  // What the user wrote, on rows of nodes and edges only.
  passes.addPass(createResolveMailbox());
  addCleanup(passes);
  if (fast)
    passes.addPass(createDropRoundings());

  // Gradients of the function with its products on nodes: the gradients of
  // their weights are then sums over nodes, too. Equal products first become
  // one, or each would have gradients of its own.
  if (options.differentiate != Gradients::None) {
    addLessArithmetic(passes, options, CommuteLinearOptions());
    addCleanup(passes);
    DifferentiateOptions gradients;
    gradients.mode = options.differentiate == Gradients::Forward
                         ? Half::Forward
                         : Half::Backward;
    llvm::append_range(gradients.wrt, options.wrt);
    gradients.save = options.save;
    gradients.wideIndex = options.wideIndex;
    passes.addPass(createDifferentiate(gradients));
  }
  passes.addPass(createForgetGradients());
  addCleanup(passes);

  // Products join the kernels of sums. Variants differ from here on, so what
  // is saved for the backward is the same in all.
  CommuteLinearOptions commuting;
  commuting.join = options.placeProducts;
  commuting.choices = true;
  commuting.flip = options.flip;
  addLessArithmetic(passes, options, commuting);

  // Softmax becomes sums, and sums give up factors.
  passes.addPass(createDecomposeSoftmax());
  if (fast && options.factorFromSum)
    passes.addPass(createFactorFromSum());

  // From here on a product on nodes is a table of its own, or part of a kernel.
  if (options.placeProducts)
    passes.addPass(createPlaceProducts({options.productSizes}));

  // Fewer tables: what hoisting moved too far.
  if (options.sinkBehindGather)
    passes.addPass(createSinkBehindGather());
  passes.addPass(createStoreNarrow());

  // One pass over memory for as many ops as possible. Equal ops first become
  // one, or kernels would compute them twice.
  addCleanup(passes);
  passes.addPass(createFormKernels());
  passes.addPass(createVerifyKernels());
}

void gossamer::registerPipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "mp-pipeline", "from captured ops to kernels", buildPipeline);
}
