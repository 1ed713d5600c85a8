// What an executor does for a program, worked out once.
//
// Views and prefixes vanish: a value either owns memory (a root: an input, an
// output or a temporary) or is placed inside a root. Where a kernel wants a
// dense table and gets a view, and where an output would share memory, a copy
// is planned. Each temporary has a last step, after which its memory is free.
#ifndef GOSSAMER_RUNTIME_PLAN_H
#define GOSSAMER_RUNTIME_PLAN_H

#include "gossamer/program/Program.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace gossamer {

/// Where a value lies inside a root; everything counts elements.
struct Place {
  uint32_t root = 0;
  int64_t offset = 0;
  int64_t rowStride = 0; // meaningless without rows
  std::vector<int64_t> strides;
  bool dense = true;
};

struct PlanStep {
  enum class Kind : uint8_t {
    Kernel,
    Gemm,
    Copy,
    PadRows,
    SumRows,
    ContractRows,
    CheckIndex
  } kind = Kind::Kernel;
  uint32_t source = 0; // Kernel, CheckIndex: index of the program's step
  std::vector<uint32_t> reads;  // Gemm: input, weight; others: sources
  std::vector<uint32_t> writes; // roots
};

struct Plan {
  enum class Owner : uint8_t { Placed, Input, Output, Temporary };

  struct Value {
    ValueInfo info;
    Place place;
    Owner owner = Owner::Placed;
    uint32_t position = 0; // among inputs or outputs
    uint32_t lastStep = 0; // of a temporary
    bool isRead = false;   // by some step; of a root
  };

  std::vector<Value> values; // the program's, then the copies
  std::vector<PlanStep> steps;
};

/// The plan of a valid program.
Plan makePlan(const Program &program);

/// The input of a gemm as a matrix: how many rows each row of the table gives,
/// and their distance; nothing when no single distance fits.
struct MatrixRows {
  int64_t perRow = 1;
  int64_t stride = 0;
};
std::optional<MatrixRows> matrixRows(const Plan::Value &value);

} // namespace gossamer

#endif
