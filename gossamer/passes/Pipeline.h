#ifndef GOSSAMER_PASSES_PIPELINE_H
#define GOSSAMER_PASSES_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace gossamer {

/// Strict keeps every result equal to the eager one up to the order of sums
/// over edges; fast also rewrites what is equal in real arithmetic only.
enum class Numerics { Fast, Strict };

/// What a program computes.
enum class Gradients { None, Forward, Backward };

/// Passes that may be left out. Those that kernels need are always on.
struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<Numerics> numerics{
      *this, "numerics", llvm::cl::desc("which rewrites are allowed"),
      llvm::cl::init(Numerics::Fast),
      llvm::cl::values(
          clEnumValN(Numerics::Fast, "fast", "also those that reassociate"),
          clEnumValN(Numerics::Strict, "strict", "exact ones only"))};
  Option<Gradients> differentiate{
      *this, "differentiate", llvm::cl::desc("which program is made"),
      llvm::cl::init(Gradients::None),
      llvm::cl::values(
          clEnumValN(Gradients::None, "none", "the function"),
          clEnumValN(Gradients::Forward, "forward",
                     "the function, and what its gradients need"),
          clEnumValN(Gradients::Backward, "backward", "the gradients"))};
  ListOption<int64_t> wrt{*this, "wrt",
                          llvm::cl::desc("arguments that need gradients")};
  Option<bool> wideIndex{*this, "wide-index",
                         llvm::cl::desc("ids of edges need more than 32 bits"),
                         llvm::cl::init(false)};
  Option<bool> save{*this, "save",
                    llvm::cl::desc("the forward saves rows of nodes"),
                    llvm::cl::init(true)};
  Option<bool> splitLinear{*this, "split-linear",
                           llvm::cl::desc("run split-linear"),
                           llvm::cl::init(true)};
  Option<bool> splitSum{*this, "split-sum", llvm::cl::desc("run split-sum"),
                        llvm::cl::init(true)};
  Option<bool> groupTerms{*this, "group-terms",
                          llvm::cl::desc("run group-terms"),
                          llvm::cl::init(true)};
  Option<bool> hoistBeforeGather{*this, "hoist-before-gather",
                                 llvm::cl::desc("run hoist-before-gather"),
                                 llvm::cl::init(true)};
  Option<bool> commuteLinear{*this, "commute-linear",
                             llvm::cl::desc("run commute-linear"),
                             llvm::cl::init(true)};
  Option<bool> mergeLinear{*this, "merge-linear",
                           llvm::cl::desc("run merge-linear"),
                           llvm::cl::init(true)};
  Option<bool> commuteMax{*this, "commute-max",
                          llvm::cl::desc("run commute-max"),
                          llvm::cl::init(true)};
  Option<bool> factorFromSum{*this, "factor-from-sum",
                             llvm::cl::desc("run factor-from-sum"),
                             llvm::cl::init(true)};
  Option<bool> sinkBehindGather{*this, "sink-behind-gather",
                                llvm::cl::desc("run sink-behind-gather"),
                                llvm::cl::init(true)};

  Option<bool> placeProducts{
      *this, "place-products",
      llvm::cl::desc("run place-products; otherwise all products on nodes are "
                     "left to the library"),
      llvm::cl::init(true)};
  Option<bool> productSizes{
      *this, "product-sizes",
      llvm::cl::desc("leave products to the library by their sizes"),
      llvm::cl::init(true)};

  Option<int64_t> flip{
      *this, "flip",
      llvm::cl::desc("commuted products on their other side, by group"),
      llvm::cl::init(0)};

  /// Switches one of the options above off by its name; false when it is none
  /// of those that are on by default.
  bool leaveOut(llvm::StringRef name);
};

/// From captured mp ops to what lowering takes; for a module of functions.
void buildPipeline(mlir::OpPassManager &manager,
                   const PipelineOptions &options);

/// Makes buildPipeline known as --mp-pipeline.
void registerPipelines();

} // namespace gossamer

#endif
