// One kernel over all rows of its row set, in parallel chunks.
//
// Kernels add to totals (Abi.h). Chunks that follow each other share a part of
// each total, which starts at 0; the total is the sum of the parts.
#ifndef GOSSAMER_RUNTIME_KERNELRUN_H
#define GOSSAMER_RUNTIME_KERNELRUN_H

#include "gossamer/program/Abi.h"
#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/Call.h"
#include "gossamer/runtime/ParallelFor.h"
#include "gossamer/runtime/Schedule.h"
#include "gossamer/runtime/ScratchPool.h"

#include <span>

namespace gossamer {

struct TotalTable {
  size_t table; // index into KernelRun::tables
  DType dtype;
  int64_t elements;
};

struct KernelRun {
  const KernelStep &step;
  GsKernel kernel;
  const GraphArrays &graph;
  bool wideIndex;
  std::span<void *const> tables; // inputs, then outputs
  std::span<const TotalTable> totals;
  const Schedule &schedule;
};

/// Fails when a row has more edges than the graph states, before a kernel sees
/// the row: scratch is measured by that number.
Status runKernel(const KernelRun &run, ParallelFor &parallel,
                 ScratchPool &pool);

} // namespace gossamer

#endif
