// Runs programs.
#ifndef GOSSAMER_RUNTIME_EXECUTOR_H
#define GOSSAMER_RUNTIME_EXECUTOR_H

#include "gossamer/program/Abi.h"
#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/Call.h"
#include "gossamer/runtime/ObjectLoader.h"
#include "gossamer/runtime/Plan.h"
#include "gossamer/runtime/ProgramRun.h"
#include "gossamer/runtime/Schedule.h"
#include "gossamer/runtime/Services.h"
#include "gossamer/runtime/Tuning.h"

#include <memory>
#include <span>
#include <vector>

namespace gossamer {

/// A program with its code mapped. Immutable, but for what `tune` remembers:
/// any number of threads may be in `run` at once.
class Executor {
public:
  /// Maps the code of a program; checks the program and that this machine can
  /// run it.
  static Result<std::shared_ptr<const Executor>> create(Program program);

  /// Inputs in the order of the program; they may have any strides, but what
  /// is not dense is copied first, and what is not read may be anything. After
  /// an error the outputs hold nothing of use.
  Status run(std::span<const GraphArrays> graphs,
             std::span<const TensorView> inputs,
             const Services &services) const;

  /// Measures all variants, and the schedules of their kernels, on these
  /// graphs, by running the program with some choices. Later runs on graphs of
  /// the same shape class go the fastest way, which is returned, with choices
  /// by kernel instead of step.
  Result<Way> tune(std::span<const GraphArrays> graphs,
                   std::span<const TensorView> inputs,
                   const Services &services) const;

  /// Has later runs on graphs of this shape class go the way that `tune` of an
  /// equal program returned. Of the graphs only the sizes are read.
  Status keepTuned(std::span<const GraphArrays> graphs,
                   const Way &byKernels) const;

  /// The schedule of each kernel of the program on these graphs, in the order
  /// of its steps. Of the graphs only the sizes are read.
  std::vector<Schedule> schedules(std::span<const GraphArrays> graphs) const;

  const Program &program() const { return source; }

  /// Whether some step reads input `index`.
  bool readsInput(size_t index) const;

  /// The number of the variant that runs on these graphs (Variants.h); what is
  /// above is about its kernels. Of the graphs only the sizes are read.
  size_t variantOn(std::span<const GraphArrays> graphs) const;

private:
  Executor(Program checked, LoadedObject loaded);

  /// One of the variants, or this.
  const Executor &variant(size_t number) const;
  /// How runs on these graphs go.
  Way wayOn(std::span<const GraphArrays> graphs) const;
  /// The fastest choices for the steps of this variant.
  Result<std::vector<ScheduleChoices>>
  tuneKernels(std::span<const GraphArrays> graphs,
              std::span<const TensorView> inputs,
              const Services &services) const;
  /// A run of this variant, with choices by step or none.
  ProgramRun runOf(std::span<const GraphArrays> graphs,
                   std::span<const TensorView> inputs,
                   std::span<const ScheduleChoices> choices) const {
    return {source, plan, kernels, graphs, inputs, choices, {}};
  }
  Status findKernels();
  /// The steps that are kernels.
  std::vector<size_t> kernelSteps() const;

  Program source;
  LoadedObject object;
  Plan plan;
  std::vector<GsKernel> kernels; // by step of the program
  std::vector<std::shared_ptr<const Executor>> variants;
  mutable TunedWays tuned;
};

} // namespace gossamer

#endif
