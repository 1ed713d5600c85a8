#include "gossamer/runtime/Tuning.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <mutex>

namespace gossamer {

namespace {

constexpr int kRounds = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

using Values = std::vector<ScheduleChoices>;

/// All values of each choice; the others are left to what was found so far.
/// Pieces of more than `mostEdges` edges are whole rows.
std::vector<Values> candidates(int64_t mostEdges) {
  Values prefetch, stream, pieces = {{{}, {}, kWholeRows}};
  for (int64_t edges : {0, 16, 32, 64, 128})
    prefetch.push_back({edges, {}, {}});
  for (bool past : {false, true})
    stream.push_back({{}, past, {}});
  for (int64_t edges : {1 << 12, 1 << 14, 1 << 16})
    if (edges < mostEdges)
      pieces.push_back({{}, {}, edges});
  return {prefetch, stream, pieces};
}

ScheduleChoices merged(ScheduleChoices into, const ScheduleChoices &from) {
  if (from.prefetch)
    into.prefetch = from.prefetch;
  if (from.stream)
    into.stream = from.stream;
  if (from.pieceEdges)
    into.pieceEdges = from.pieceEdges;
  return into;
}

using SecondsOfSteps = std::vector<double>;

/// For each value, the least seconds of each step, with the other choices as
/// in `best`.
Result<std::vector<SecondsOfSteps>>
leastSeconds(const Values &values, const std::vector<ScheduleChoices> &best,
             const MeasureRun &measure) {
  std::vector<SecondsOfSteps> least(values.size(),
                                    SecondsOfSteps(best.size(), kNever));
  for (int round = 0; round < kRounds; ++round)
    for (size_t value = 0; value < values.size(); ++value) {
      std::vector<ScheduleChoices> tried = best;
      for (ScheduleChoices &choices : tried)
        choices = merged(choices, values[value]);
      SecondsOfSteps seconds(best.size(), 0.0);
      if (Status s = measure(tried, seconds); !s.ok())
        return s.error();
      for (size_t step = 0; step < best.size(); ++step)
        least[value][step] = std::min(least[value][step], seconds[step]);
    }
  return least;
}

} // namespace

ShapeClass shapeClassOf(std::span<const GraphArrays> graphs) {
  ShapeClass shape;
  for (const GraphArrays &graph : graphs)
    for (int64_t size : {graph.numSrc, graph.numDst, graph.numEdges,
                         graph.maxInDegree, graph.maxOutDegree})
      shape.push_back(uint8_t(std::bit_width(uint64_t(size))));
  return shape;
}

std::optional<Way> TunedWays::find(std::span<const GraphArrays> graphs) const {
  if (!any.load(std::memory_order_acquire))
    return {};
  std::lock_guard lock(guard);
  auto found = known.find(shapeClassOf(graphs));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

void TunedWays::keep(std::span<const GraphArrays> graphs, Way way) {
  std::lock_guard lock(guard);
  known.insert_or_assign(shapeClassOf(graphs), std::move(way));
  any.store(true, std::memory_order_release);
}

Result<std::vector<ScheduleChoices>>
fastestChoices(std::span<const int64_t> mostEdges, const MeasureRun &measure) {
  size_t steps = mostEdges.size();
  int64_t most = steps == 0 ? 0 : std::ranges::max(mostEdges);
  std::vector<ScheduleChoices> best(steps);
  for (const Values &values : candidates(most)) {
    auto least = leastSeconds(values, best, measure);
    if (!least.ok())
      return least.error();
    for (size_t step = 0; step < steps; ++step) {
      auto secondsOf = [step](const auto &ofSteps) { return ofSteps[step]; };
      auto fastest = std::ranges::min_element(least.value(), {}, secondsOf);
      best[step] =
          merged(best[step], values[size_t(fastest - least.value().begin())]);
    }
  }
  for (size_t step = 0; step < steps; ++step)
    if (*best[step].pieceEdges >= mostEdges[step])
      best[step].pieceEdges = kWholeRows;
  return best;
}

Result<size_t> fastestWay(size_t ways, const RunWay &run) {
  if (ways == 1)
    return size_t(0);
  std::vector<double> least(ways, kNever);
  for (int round = 0; round < kRounds; ++round)
    for (size_t way = 0; way < ways; ++way) {
      auto start = std::chrono::steady_clock::now();
      if (Status s = run(way); !s.ok())
        return s.error();
      std::chrono::duration<double> took =
          std::chrono::steady_clock::now() - start;
      least[way] = std::min(least[way], took.count());
    }
  return size_t(std::min_element(least.begin(), least.end()) - least.begin());
}

} // namespace gossamer
