#include "gossamer/runtime/KernelRun.h"

#include "gossamer/runtime/Partition.h"

#include <atomic>

namespace gossamer {

namespace {

/// Far enough to hide a memory access behind the rows of 64 floats before it.
constexpr int64_t kPrefetchEdges = 12;

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

enum class Outcome { Done, NoScratch, WrongDegree };

class Chunks {
public:
  Chunks(const KernelRun &kernelRun, const Partition &rows,
         int64_t scratchPerChunk, ScratchPool &scratchPool)
      : run(kernelRun), partition(rows), scratchBytes(scratchPerChunk),
        pool(scratchPool),
        call{nullptr, nullptr, nullptr, run.tables.data(), 0, kPrefetchEdges} {
    if (!run.step.usesEdges)
      return;
    const EdgeArrays &edges = run.graph.edges(run.step.visitBy);
    call.offsets = edges.offsets.data;
    call.neighbors = edges.neighbors.data;
    call.edgeIds = edges.edgeIds.data;
    call.maxDegree = run.graph.maxDegree(run.step.visitBy);
  }

  void operator()(int64_t chunk) {
    int64_t begin = partition.border(chunk), end = partition.border(chunk + 1);
    if (begin == end)
      return;
    if (run.step.usesEdges && !fits(begin, end))
      return outcome.store(Outcome::WrongDegree, std::memory_order_relaxed);
    ScratchPool::Lease scratch;
    if (scratchBytes > 0) {
      scratch = pool.lease(size_t(scratchBytes));
      if (!scratch)
        return outcome.store(Outcome::NoScratch, std::memory_order_relaxed);
    }
    run.kernel(&call, begin, end, scratch.data());
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
  bool fits(int64_t begin, int64_t end) const {
    auto check = run.wideIndex ? &degreesFit<int64_t> : &degreesFit<int32_t>;
    return check(call.offsets, begin, end, call.maxDegree, run.graph.numEdges);
  }

  const KernelRun &run;
  const Partition &partition;
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
  Chunks chunks(run, partition, scratchBytes, pool);
  parallel.forEach(partition.chunks(), chunks);
  return chunks.status();
}

} // namespace gossamer
