#include "gossamer/runtime/Variants.h"

#include <atomic>

namespace gossamer {

namespace {

constexpr size_t kNotForced = kMaxVariants;
std::atomic<size_t> forcedNumber = kNotForced;

double costOf(const Program &program, std::span<const GraphArrays> graphs) {
  double sum = 0;
  for (const RowCost &cost : program.costs)
    sum +=
        double(cost.perRow) * double(rowCount(cost.rows, graphs[cost.graph]));
  return sum;
}

} // namespace

size_t variantFor(const Program &program, std::span<const GraphArrays> graphs,
                  std::optional<size_t> measured) {
  if (program.variants.empty())
    return 0;
  size_t number = forcedNumber.load(std::memory_order_relaxed);
  if (number <= program.variants.size())
    return number;
  if (measured)
    return *measured;
  size_t best = 0;
  double least = costOf(program, graphs);
  for (size_t i = 0; i < program.variants.size(); ++i)
    if (double cost = costOf(program.variants[i], graphs); cost < least) {
      least = cost;
      best = i + 1;
    }
  return best;
}

void forceVariant(std::optional<size_t> number) {
  forcedNumber.store(number.value_or(kNotForced), std::memory_order_relaxed);
}

} // namespace gossamer
