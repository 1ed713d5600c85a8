#include "gossamer/runtime/KernelRun.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/PartialSums.h"
#include "gossamer/runtime/Partition.h"
#include "gossamer/runtime/RowPieces.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

namespace gossamer {

namespace {

/// Whether rows [begin, end) have between 0 and maxDegree edges each, all of
/// them among the edges of the graph.
template <typename Index>
bool degreesFit(const void *offsets, int64_t begin, int64_t end,
                int64_t maxDegree, int64_t numEdges) {
  const Index *at = static_cast<const Index *>(offsets);
  bool fit = at[begin] >= 0 && at[end] <= numEdges;
  for (int64_t row = begin; row < end; ++row) {
    // As an unsigned number a negative degree is too large.
    fit &= uint64_t(int64_t(at[row + 1]) - int64_t(at[row])) <=
           uint64_t(maxDegree);
  }
  return fit;
}

/// Whether all results with rows lie where streaming wants them.
bool resultsAreAligned(const KernelRun &run) {
  return std::all_of(run.tables.begin() + ptrdiff_t(run.step.inputs.size()),
                     run.tables.end(), [](const void *table) {
                       return uintptr_t(table) % kStreamAlignment == 0;
                     });
}

/// Streamed results are seen by other threads after this.
void finishStreaming() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// The parts of all totals of one run.
class Totals {
public:
  Totals(const KernelRun &kernelRun, int64_t chunks, ScratchPool &pool)
      : run(kernelRun) {
    for (const TotalTable &total : run.totals) {
      offsets.push_back(partBytes);
      int64_t bytes = total.elements * elementBytes(total.dtype);
      partBytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    count = partBytes == 0 ? chunks : affordableParts(partBytes, chunks);
    memory = pool.lease(size_t(bytes()));
  }

  int64_t parts() const { return count; }
  int64_t bytes() const { return count * partBytes; }
  bool ok() const { return bytes() == 0 || memory; }

  /// The tables of the run, with the totals of `part`, which become 0.
  std::vector<void *> tablesOf(int64_t part) const {
    std::vector<void *> tables(run.tables.begin(), run.tables.end());
    std::fill_n(partData(part), partBytes, char(0));
    for (size_t i = 0; i < offsets.size(); ++i)
      tables[run.totals[i].table] = partData(part) + offsets[i];
    return tables;
  }

  void finish(ParallelFor &parallel) const {
    for (size_t i = 0; i < offsets.size(); ++i) {
      const TotalTable &total = run.totals[i];
      addParts(total.dtype, partData(0) + offsets[i], count,
               partBytes / elementBytes(total.dtype), total.elements,
               run.tables[total.table], parallel);
    }
  }

private:
  static constexpr int64_t kAlignment = int64_t(ScratchPool::kAlignment);

  char *partData(int64_t part) const {
    return static_cast<char *>(memory.data()) + part * partBytes;
  }

  const KernelRun &run;
  std::vector<int64_t> offsets; // of each total, in bytes from its part
  int64_t partBytes = 0;
  int64_t count = 0;
  ScratchPool::Lease memory;
};

enum class Outcome { Done, NoScratch, WrongDegree };

class Chunks {
public:
  Chunks(const KernelRun &kernelRun, const Partition &rows,
         const Totals &runTotals, const GsKernelCall &forWholeRows,
         std::span<const int64_t> heavyRows, int64_t scratchPerChunk,
         ScratchPool &scratchPool)
      : run(kernelRun), partition(rows), totals(runTotals), call(forWholeRows),
        heavy(heavyRows), scratchBytes(scratchPerChunk), pool(scratchPool) {}

  /// The chunks that share a part of each total.
  void operator()(int64_t part) {
    int64_t first = partition.chunks() * part / totals.parts();
    int64_t last = partition.chunks() * (part + 1) / totals.parts();
    if (run.totals.empty())
      return runChunks(first, last, call);
    std::vector<void *> tables = totals.tablesOf(part);
    GsKernelCall ofPart = call;
    ofPart.tables = tables.data();
    runChunks(first, last, ofPart);
  }

  Status status() const {
    switch (outcome.load()) {
    case Outcome::Done:
      return {};
    case Outcome::NoScratch:
      return makeError(ErrorCode::OutOfMemory, "no memory for ", scratchBytes,
                       " bytes of scratch per thread");
    case Outcome::WrongDegree:
      return makeError(ErrorCode::InvalidArgument, "graph ", run.step.graph,
                       ": some row has more edges than the maximum ",
                       run.step.visitBy == VisitBy::Dst ? "in" : "out",
                       "-degree, stated as ",
                       run.graph.maxDegree(run.step.visitBy),
                       ", or its offsets decrease");
    }
    return {};
  }

private:
  /// In one call: what waits at its end to be added to totals is added in less
  /// than full batches.
  void runChunks(int64_t first, int64_t last, const GsKernelCall &with) {
    ScratchPool::Lease scratch;
    if (scratchBytes > 0) {
      scratch = pool.lease(size_t(scratchBytes));
      if (!scratch)
        return outcome.store(Outcome::NoScratch, std::memory_order_relaxed);
    }
    int64_t begin = partition.border(first), end = partition.border(last);
    if (begin == end)
      return;
    if (run.step.usesEdges && !fits(begin, end))
      return outcome.store(Outcome::WrongDegree, std::memory_order_relaxed);
    runWholeRows(with, begin, end, scratch.data());
    if (with.stream)
      finishStreaming();
  }

  /// Rows [begin, end) but the heavy ones.
  void runWholeRows(const GsKernelCall &with, int64_t begin, int64_t end,
                    void *scratch) const {
    auto next = std::lower_bound(heavy.begin(), heavy.end(), begin);
    for (; next != heavy.end() && *next < end; begin = *next++ + 1)
      if (begin < *next)
        run.kernel(&with, begin, *next, scratch);
    if (begin < end)
      run.kernel(&with, begin, end, scratch);
  }

  bool fits(int64_t begin, int64_t end) const {
    auto check = run.wideIndex ? &degreesFit<int64_t> : &degreesFit<int32_t>;
    return check(call.offsets, begin, end,
                 run.graph.maxDegree(run.step.visitBy), run.graph.numEdges);
  }

  const KernelRun &run;
  const Partition &partition;
  const Totals &totals;
  const GsKernelCall &call;
  const std::span<const int64_t> heavy; // left out
  const int64_t scratchBytes;
  ScratchPool &pool;
  std::atomic<Outcome> outcome = Outcome::Done;
};

/// The call for whole rows of at most `mostEdges` edges.
GsKernelCall callFor(const KernelRun &run, int64_t mostEdges) {
  GsKernelCall call{};
  call.tables = run.tables.data();
  call.prefetch = run.schedule.prefetch;
  call.stream = run.schedule.stream && resultsAreAligned(run);
  if (!run.step.usesEdges)
    return call;
  const EdgeArrays &edges = run.graph.edges(run.step.visitBy);
  call.offsets = edges.offsets.data;
  call.neighbors = edges.neighbors.data;
  call.edgeIds = edges.edgeIds.data;
  call.maxDegree = mostEdges;
  return call;
}

/// The scratch of a call for rows of up to `degree` edges; nothing when it is
/// more than fits in memory.
std::optional<int64_t> scratchFor(const KernelStep &step, int64_t degree) {
  int64_t bytes;
  if (__builtin_mul_overflow(step.scratchBytesPerDegree, degree, &bytes) ||
      __builtin_add_overflow(bytes, step.scratchBytes, &bytes))
    return std::nullopt;
  return bytes;
}

} // namespace

Status runKernel(const KernelRun &run, ParallelFor &parallel,
                 ScratchPool &pool) {
  const KernelStep &step = run.step;
  int64_t maxDegree = run.graph.maxDegree(step.visitBy);
  std::optional<int64_t> scratchOfRow = scratchFor(step, maxDegree);
  if (!scratchOfRow)
    return makeError(ErrorCode::InvalidArgument, "kernel ", step.symbol,
                     " needs more scratch than fits in memory");
  const Schedule &schedule = run.schedule;
  int64_t rows = rowCount(step.rows, run.graph);
  const void *offsets = run.graph.edges(step.visitBy).offsets.data;
  Partition partition =
      step.usesEdges
          ? Partition::ofEdges(offsets, run.wideIndex, rows, step.rowWork)
          : Partition::ofRows(rows, step.rowWork);
  Totals totals(run, partition.chunks(), pool);
  if (!totals.ok())
    return noMemoryForParts(totals.bytes());
  int64_t wholeDegree = maxDegree;
  std::vector<int64_t> heavy;
  if (step.phases > 0 && maxDegree > schedule.pieceEdges) {
    wholeDegree = schedule.pieceEdges;
    heavy = heavyRows(offsets, run.wideIndex, rows, wholeDegree);
  }
  GsKernelCall call = callFor(run, wholeDegree);
  Chunks chunks(run, partition, totals, call, heavy,
                *scratchFor(step, wholeDegree), pool);
  parallel.forEach(totals.parts(), chunks);
  if (Status s = chunks.status(); !s.ok())
    return s;
  totals.finish(parallel);
  call.maxDegree = maxDegree;
  return runInPieces({step, run.kernel, call, run.wideIndex,
                      schedule.pieceEdges, *scratchOfRow},
                     heavy, parallel, pool);
}

} // namespace gossamer
