// Variants and schedules that were measured, and for which graphs.
#ifndef GOSSAMER_RUNTIME_TUNING_H
#define GOSSAMER_RUNTIME_TUNING_H

#include "gossamer/program/Result.h"
#include "gossamer/runtime/Call.h"
#include "gossamer/runtime/ForkSafeMutex.h"
#include "gossamer/runtime/Schedule.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace gossamer {

/// Graphs are of one shape class when each size of the one is the other's, to a
/// power of two: numbers of nodes and edges, and largest degrees.
using ShapeClass = std::vector<uint8_t>;
ShapeClass shapeClassOf(std::span<const GraphArrays> graphs);

/// A way from the inputs of a program to its outputs.
struct Way {
  size_t variant = 0;                   // Variants.h
  std::vector<ScheduleChoices> choices; // by step of the variant
};

/// The fastest way of a program, for each shape class that was measured.
class TunedWays {
public:
  /// Nothing for a class that was not measured.
  std::optional<Way> find(std::span<const GraphArrays> graphs) const;
  void keep(std::span<const GraphArrays> graphs, Way way);

private:
  mutable ForkSafeMutex guard;
  std::atomic<bool> any = false; // spares other programs the lock
  std::map<ShapeClass, Way> known;
};

/// Runs a program with choices by step, and adds the seconds of each step.
using MeasureRun = std::function<Status(
    const std::vector<ScheduleChoices> &choices, std::span<double> seconds)>;

/// The fastest choices of each step: for one choice after another all values
/// are measured in turn, several times, and the one with the least time wins.
/// `mostEdges` holds, by step, the edges of the largest row that it can cut.
Result<std::vector<ScheduleChoices>>
fastestChoices(std::span<const int64_t> mostEdges, const MeasureRun &measure);

/// Runs a program in one of several ways.
using RunWay = std::function<Status(size_t way)>;

/// The number of the way whose runs take least, of `ways`, measured in turn.
Result<size_t> fastestWay(size_t ways, const RunWay &run);

} // namespace gossamer

#endif
