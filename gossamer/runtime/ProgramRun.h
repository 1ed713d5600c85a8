// A program once over its graphs: its steps in order, and the memory of what
// they make, while it is read.
#ifndef GOSSAMER_RUNTIME_PROGRAMRUN_H
#define GOSSAMER_RUNTIME_PROGRAMRUN_H

#include "gossamer/program/Abi.h"
#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/Call.h"
#include "gossamer/runtime/Plan.h"
#include "gossamer/runtime/Schedule.h"
#include "gossamer/runtime/Services.h"

#include <span>

namespace gossamer {

/// A call that was checked (Call.h).
struct ProgramRun {
  const Program &program;
  const Plan &plan;
  std::span<const GsKernel> kernels; // by step
  std::span<const GraphArrays> graphs;
  std::span<const TensorView> inputs;
  std::span<const ScheduleChoices> choices; // by step, or none
  std::span<double> seconds; // where to add those of kernels, by step; or none
};

Status runProgram(const ProgramRun &run, const Services &services);

} // namespace gossamer

#endif
