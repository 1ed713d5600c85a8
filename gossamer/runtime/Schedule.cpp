#include "gossamer/runtime/Schedule.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/ForkSafeMutex.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>

namespace gossamer {

namespace {

/// Bytes on their way to a core that keep its misses in flight, and leave most
/// of its second-level cache, where they wait, to everything else. Half and
/// twice as many take at most 3 % longer.
constexpr int64_t kBytesAhead = 12 << 10;
constexpr int64_t kLeastAhead = 8, kMostAhead = 128;

/// Rows of a table in the caches of a core are near enough without.
int64_t choosePrefetch(const Workload &work, const CacheSizes &caches) {
  if (work.gatheredBytes == 0 ||
      work.gatheredRows * work.gatheredBytes <= caches.perCore / 2)
    return 0;
  return std::clamp(kBytesAhead / work.gatheredBytes, kLeastAhead, kMostAhead);
}

/// Results that the cache of a core holds are there for who reads them next.
/// More would leave it again, after every line was read only to be overwritten,
/// and the lines that another core has are the slowest to get.
bool chooseStream(const Workload &work, const CacheSizes &caches) {
  return work.resultBytes > caches.perCore;
}

/// A row is cut when it has more than a 64th of the edges: with up to 32
/// threads no thread then waits long for the one that has it. Below that many
/// edges, a call per piece and phase costs too much beside them.
int64_t choosePieceEdges(const Workload &work) {
  constexpr int64_t leastEdges = 1 << 14, parts = 64;
  int64_t piece = std::max(leastEdges, work.edges / parts);
  return work.mostEdges > piece ? piece : kWholeRows;
}

int64_t roundedPiece(int64_t edges) {
  return std::max<int64_t>(edges / kPieceEdges, 1) * kPieceEdges;
}

/// What the kernel says about a file of one number, or 0. sysconf is no help:
/// in virtual machines it takes the last level of all sockets for one cache.
int64_t numberIn(const std::string &path) {
  std::ifstream file(path);
  int64_t number = 0;
  char unit = 0;
  file >> number >> unit;
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number;
}

int64_t cacheSize(int64_t level, int64_t usual) {
  for (int index = 0; index < 8; ++index) {
    std::string cache =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    if (numberIn(cache + "/level") == level)
      if (int64_t size = numberIn(cache + "/size"); size > 0)
        return size;
  }
  return usual;
}

struct Forced {
  ForkSafeMutex guard;
  ScheduleChoices choices;
  std::atomic<bool> any = false; // spares runs the lock
};

Forced &forced() {
  static Forced of;
  return of;
}

} // namespace

const CacheSizes &cacheSizes() {
  static const CacheSizes sizes = {cacheSize(2, int64_t(1) << 20),
                                   cacheSize(3, int64_t(32) << 20)};
  return sizes;
}

Workload workloadOf(const Program &program, const KernelStep &step,
                    std::span<const GraphArrays> graphs) {
  Workload work;
  for (uint32_t id : step.outputs) {
    const ValueInfo &value = program.values[id];
    if (value.rows != RowSet::None)
      work.resultBytes += rowCount(value.rows, graphs[value.graph]) *
                          rowElements(value) * elementBytes(value.dtype);
  }
  if (!step.usesEdges)
    return work;
  const GraphArrays &graph = graphs[step.graph];
  work.edges = graph.numEdges;
  work.gatheredRows =
      step.visitBy == VisitBy::Dst ? graph.numSrc : graph.numDst;
  work.gatheredBytes = step.gatheredBytes;
  if (step.phases > 0)
    work.mostEdges = graph.maxDegree(step.visitBy);
  return work;
}

Schedule chooseSchedule(const Workload &work, const CacheSizes &caches) {
  return {choosePrefetch(work, caches), chooseStream(work, caches),
          roundedPiece(choosePieceEdges(work))};
}

Schedule ScheduleChoices::over(Schedule chosen) const {
  chosen.prefetch = prefetch.value_or(chosen.prefetch);
  chosen.stream = stream.value_or(chosen.stream);
  chosen.pieceEdges = roundedPiece(pieceEdges.value_or(chosen.pieceEdges));
  return chosen;
}

Schedule scheduleOf(const Program &program, const KernelStep &step,
                    std::span<const GraphArrays> graphs,
                    const ScheduleChoices &choices) {
  Workload work = workloadOf(program, step, graphs);
  return forcedSchedule().over(
      choices.over(chooseSchedule(work, cacheSizes())));
}

void forceSchedule(const ScheduleChoices &choices) {
  std::lock_guard lock(forced().guard);
  forced().choices = choices;
  forced().any.store(true, std::memory_order_release);
}

ScheduleChoices forcedSchedule() {
  if (!forced().any.load(std::memory_order_acquire))
    return {};
  std::lock_guard lock(forced().guard);
  return forced().choices;
}

} // namespace gossamer
