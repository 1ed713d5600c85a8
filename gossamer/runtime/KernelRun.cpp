#include "gossamer/runtime/KernelRun.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/PartialSums.h"
#include "gossamer/runtime/Partition.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace gossamer {

namespace {

/// Far enough to keep all misses of a core in flight; the rows wait in its
/// second-level cache, 8 KiB of them when they have 64 floats.
constexpr int64_t kPrefetchEdges = 32;

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
         const Totals &runTotals, int64_t scratchPerChunk,
         ScratchPool &scratchPool)
      : run(kernelRun), partition(rows), totals(runTotals),
        scratchBytes(scratchPerChunk), pool(scratchPool),
        call{nullptr, nullptr, nullptr, run.tables.data(), 0, kPrefetchEdges} {
    if (!run.step.usesEdges)
      return;
    const EdgeArrays &edges = run.graph.edges(run.step.visitBy);
    call.offsets = edges.offsets.data;
    call.neighbors = edges.neighbors.data;
    call.edgeIds = edges.edgeIds.data;
    call.maxDegree = run.graph.maxDegree(run.step.visitBy);
  }

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
                       "-degree, stated as ", call.maxDegree,
                       ", or its offsets decrease");
    }
    return {};
  }

private:
  void runChunks(int64_t first, int64_t last, const GsKernelCall &with) {
    ScratchPool::Lease scratch;
    if (scratchBytes > 0) {
      scratch = pool.lease(size_t(scratchBytes));
      if (!scratch)
        return outcome.store(Outcome::NoScratch, std::memory_order_relaxed);
    }
    for (int64_t chunk = first; chunk < last; ++chunk) {
      int64_t begin = partition.border(chunk);
      int64_t end = partition.border(chunk + 1);
      if (begin == end)
        continue;
      if (run.step.usesEdges && !fits(begin, end))
        return outcome.store(Outcome::WrongDegree, std::memory_order_relaxed);
      run.kernel(&with, begin, end, scratch.data());
    }
  }

  bool fits(int64_t begin, int64_t end) const {
    auto check = run.wideIndex ? &degreesFit<int64_t> : &degreesFit<int32_t>;
    return check(call.offsets, begin, end, call.maxDegree, run.graph.numEdges);
  }

  const KernelRun &run;
  const Partition &partition;
  const Totals &totals;
  const int64_t scratchBytes;
  ScratchPool &pool;
  GsKernelCall call;
  std::atomic<Outcome> outcome = Outcome::Done;
};

} // namespace

Status runKernel(const KernelRun &run, ParallelFor &parallel,
                 ScratchPool &pool) {
  const KernelStep &step = run.step;
  int64_t scratchBytes;
  if (__builtin_mul_overflow(step.scratchBytesPerDegree,
                             run.graph.maxDegree(step.visitBy),
                             &scratchBytes) ||
      __builtin_add_overflow(scratchBytes, step.scratchBytes, &scratchBytes))
    return makeError(ErrorCode::InvalidArgument, "kernel ", step.symbol,
                     " needs more scratch than fits in memory");
  int64_t rows = rowCount(step.rows, run.graph);
  const EdgeArrays &edges = run.graph.edges(step.visitBy);
  Partition partition = step.usesEdges ? Partition::ofEdges(edges.offsets.data,
                                                            run.wideIndex, rows)
                                       : Partition::ofRows(rows);
  Totals totals(run, partition.chunks(), pool);
  if (!totals.ok())
    return noMemoryForParts(totals.bytes());
  Chunks chunks(run, partition, totals, scratchBytes, pool);
  parallel.forEach(totals.parts(), chunks);
  if (Status s = chunks.status(); !s.ok())
    return s;
  totals.finish(parallel);
  return {};
}

} // namespace gossamer
