#include "gossamer/runtime/Partition.h"

#include <algorithm>

namespace gossamer {

namespace {

// A chunk of this much work takes some 20 microseconds at 64 features: long
// beside waking a thread for it, and short beside the end of a kernel, where
// threads wait, even on graphs of a thousand edges. Kernels with totals have a
// part of them for each chunk to clear and to add up, so less would cost.
constexpr int64_t kWorkPerChunk = 2048;
constexpr int64_t kMaxChunks = 512;

} // namespace

Partition::Partition(const void *rowOffsets, bool wideOffsets, int64_t numRows,
                     int64_t workOfRow)
    : offsets(rowOffsets), wide(wideOffsets), rows(numRows), rowWork(workOfRow),
      work(workBefore(numRows)),
      count(std::clamp((work + kWorkPerChunk - 1) / kWorkPerChunk,
                       int64_t(numRows > 0), kMaxChunks)) {}

Partition Partition::ofRows(int64_t rows, int64_t rowWork) {
  return Partition(nullptr, false, rows, rowWork);
}

Partition Partition::ofEdges(const void *offsets, bool wide, int64_t rows,
                             int64_t rowWork) {
  return Partition(offsets, wide, rows, rowWork);
}

int64_t Partition::workBefore(int64_t row) const {
  int64_t ofRows = row * rowWork;
  if (!offsets || row == 0)
    return ofRows;
  return ofRows + (wide ? static_cast<const int64_t *>(offsets)[row]
                        : static_cast<const int32_t *>(offsets)[row]);
}

int64_t Partition::border(int64_t chunk) const {
  if (chunk >= count)
    return rows;
  // The product fits: work is below 2^53 on any machine, count below 2^10.
  int64_t wanted = work * chunk / count;
  int64_t low = 0, high = rows;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (workBefore(middle) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

} // namespace gossamer
