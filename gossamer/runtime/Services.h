// What a run of a program borrows from its surroundings.
#ifndef GOSSAMER_RUNTIME_SERVICES_H
#define GOSSAMER_RUNTIME_SERVICES_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/Gemm.h"
#include "gossamer/runtime/ParallelFor.h"
#include "gossamer/runtime/ScratchPool.h"

#include <span>

namespace gossamer {

/// Where outputs are made.
class Allocator {
public:
  virtual ~Allocator() = default;

  /// Memory for output `index`, dense; called once for each output, on the
  /// thread that runs the program.
  virtual Result<void *> allocate(size_t index, DType dtype,
                                  std::span<const int64_t> shape) = 0;
};

struct Services {
  ParallelFor &parallel;
  Gemm &gemm;
  Allocator &allocator;
  ScratchPool &pool;
};

} // namespace gossamer

#endif
