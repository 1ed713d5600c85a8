// Schedules that were measured, and for which graphs.
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
#include <span>
#include <vector>

namespace gossamer {

/// Graphs are of one shape class when each size of the one is the other's, to a
/// power of two: numbers of nodes and edges, and largest degrees.
using ShapeClass = std::vector<uint8_t>;
ShapeClass shapeClassOf(std::span<const GraphArrays> graphs);

/// Choices by step of a program, for each shape class that was measured.
class TunedSchedules {
public:
  /// Nothing for a class that was not measured.
  std::vector<ScheduleChoices> find(std::span<const GraphArrays> graphs) const;
  void keep(std::span<const GraphArrays> graphs,
            std::vector<ScheduleChoices> choices);

private:
  mutable ForkSafeMutex guard;
  std::atomic<bool> any = false; // spares other programs the lock
  std::map<ShapeClass, std::vector<ScheduleChoices>> known;
};

/// Runs a program with choices by step, and adds the seconds of each step.
using MeasureRun = std::function<Status(
    const std::vector<ScheduleChoices> &choices, std::span<double> seconds)>;

/// The fastest choices of each of `steps` steps: for one choice after another
/// all values are measured in turn, several times, and the one with the least
/// time wins.
Result<std::vector<ScheduleChoices>> fastestChoices(size_t steps,
                                                    const MeasureRun &measure);

} // namespace gossamer

#endif
