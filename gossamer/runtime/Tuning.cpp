#include "gossamer/runtime/Tuning.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>

namespace gossamer {

namespace {

constexpr int kRounds = 3;

using Values = std::vector<ScheduleChoices>;

/// All values of each choice; the others are left to what was found so far.
std::vector<Values> candidates() {
  Values prefetch, stream;
  for (int64_t edges : {0, 16, 32, 64, 128})
    prefetch.push_back({edges, {}, {}});
  for (bool past : {false, true})
    stream.push_back({{}, past, {}});
  return {prefetch, stream};
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

} // namespace

ShapeClass shapeClassOf(std::span<const GraphArrays> graphs) {
  ShapeClass shape;
  for (const GraphArrays &graph : graphs)
    for (int64_t size : {graph.numSrc, graph.numDst, graph.numEdges,
                         graph.maxInDegree, graph.maxOutDegree})
      shape.push_back(uint8_t(std::bit_width(uint64_t(size))));
  return shape;
}

std::vector<ScheduleChoices>
TunedSchedules::find(std::span<const GraphArrays> graphs) const {
  if (!any.load(std::memory_order_acquire))
    return {};
  std::lock_guard lock(guard);
  auto found = known.find(shapeClassOf(graphs));
  return found == known.end() ? std::vector<ScheduleChoices>() : found->second;
}

void TunedSchedules::keep(std::span<const GraphArrays> graphs,
                          std::vector<ScheduleChoices> choices) {
  std::lock_guard lock(guard);
  known.insert_or_assign(shapeClassOf(graphs), std::move(choices));
  any.store(true, std::memory_order_release);
}

Result<std::vector<ScheduleChoices>> fastestChoices(size_t steps,
                                                    const MeasureRun &measure) {
  std::vector<ScheduleChoices> best(steps);
  for (const Values &values : candidates()) {
    std::vector<std::vector<double>> least(
        values.size(),
        std::vector<double>(steps, std::numeric_limits<double>::infinity()));
    for (int round = 0; round < kRounds; ++round)
      for (size_t value = 0; value < values.size(); ++value) {
        std::vector<ScheduleChoices> tried = best;
        for (ScheduleChoices &choices : tried)
          choices = merged(choices, values[value]);
        std::vector<double> seconds(steps, 0.0);
        if (Status s = measure(tried, seconds); !s.ok())
          return s.error();
        for (size_t step = 0; step < steps; ++step)
          least[value][step] = std::min(least[value][step], seconds[step]);
      }
    for (size_t step = 0; step < steps; ++step) {
      auto faster = [&](const auto &left, const auto &right) {
        return left[step] < right[step];
      };
      auto fastest = std::min_element(least.begin(), least.end(), faster);
      best[step] = merged(best[step], values[size_t(fastest - least.begin())]);
    }
  }
  return best;
}

} // namespace gossamer
