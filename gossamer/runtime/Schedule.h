// How a kernel goes over a graph: what its code takes as arguments, so that
// another graph never needs other code. No choice changes a result by more than
// rounding, and none depends on the number of threads.
#ifndef GOSSAMER_RUNTIME_SCHEDULE_H
#define GOSSAMER_RUNTIME_SCHEDULE_H

#include "gossamer/program/Program.h"
#include "gossamer/runtime/Call.h"

#include <cstdint>
#include <optional>
#include <span>

namespace gossamer {

/// A vector of few features holds edges of one piece only, when pieces are
/// multiples of this.
inline constexpr int64_t kPieceEdges = 64;
/// Pieces of so many edges are whole rows.
inline constexpr int64_t kWholeRows = INT64_MAX / kPieceEdges * kPieceEdges;

struct Schedule {
  int64_t prefetch = 0; // edges ahead; 0 for none
  bool stream = false;  // results go past the caches
  // Rows of more edges are computed in pieces of so many, one piece per thread;
  // a multiple of kPieceEdges.
  int64_t pieceEdges = kWholeRows;

  bool operator==(const Schedule &) const = default;
};

/// What a schedule is chosen from.
struct Workload {
  int64_t edges = 0;         // that the kernel visits
  int64_t gatheredRows = 0;  // rows of the tables that edges read anywhere
  int64_t gatheredBytes = 0; // of one row of all these tables
  int64_t resultBytes = 0;   // of all rows that are written
  int64_t mostEdges = 0;     // of a row that can be cut in pieces
};

Workload workloadOf(const Program &program, const KernelStep &step,
                    std::span<const GraphArrays> graphs);

struct CacheSizes {
  int64_t perCore = 0; // the second level
  int64_t shared = 0;  // the last level
};

/// This machine's; usual sizes where the system does not say.
const CacheSizes &cacheSizes();

/// The schedule that the cost model expects to be the fastest.
Schedule chooseSchedule(const Workload &work, const CacheSizes &caches);

/// Choices that the cost model does not make: measured ones (Tuning.h), or
/// forced ones, to test and to compare them.
struct ScheduleChoices {
  std::optional<int64_t> prefetch;
  std::optional<bool> stream;
  std::optional<int64_t> pieceEdges;

  /// `chosen`, but for what is forced.
  Schedule over(Schedule chosen) const;
};

/// The schedule of a kernel: what is forced, else `choices`, else the model's.
Schedule scheduleOf(const Program &program, const KernelStep &step,
                    std::span<const GraphArrays> graphs,
                    const ScheduleChoices &choices);

/// Forces choices for all kernels of the process from now on.
void forceSchedule(const ScheduleChoices &choices);
ScheduleChoices forcedSchedule();

} // namespace gossamer

#endif
