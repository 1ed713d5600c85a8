#include "gossamer/runtime/IndexCheck.h"

#include <algorithm>
#include <atomic>

namespace gossamer {

namespace {

/// Numbers that one thread looks at together.
constexpr int64_t kBlock = int64_t(1) << 15;

/// Whether all of `count` numbers are in [least, most].
template <typename T>
bool allWithin(const T *numbers, int64_t count, int64_t least, int64_t most) {
  int64_t smallest = most, largest = least;
  for (int64_t i = 0; i < count; ++i) {
    smallest = std::min(smallest, int64_t(numbers[i]));
    largest = std::max(largest, int64_t(numbers[i]));
  }
  return smallest >= least && largest <= most;
}

Error outOfRange(const CheckIndexStep &step, int64_t number, int64_t row) {
  std::string where = step.place.empty() ? "" : step.place + ": ";
  std::string what = step.field.empty() ? "the index" : step.field;
  std::ostringstream end;
  if (step.fromEnd)
    end << ", or " << -step.count << " to -1";
  return makeError(ErrorCode::OutOfRange, where, what, " is ", number,
                   " in row ", row, ", but the table has ", step.count,
                   " rows, 0 to ", step.count - 1, end.str());
}

template <typename T>
Status check(const CheckIndexStep &step, const T *numbers, int64_t rows,
             ParallelFor &parallel) {
  int64_t least = step.fromEnd ? -step.count : 0, most = step.count - 1;
  int64_t blocks = (rows + kBlock - 1) / kBlock;
  std::atomic<int64_t> bad = blocks;
  parallel.forEach(blocks, [&](int64_t block) {
    int64_t begin = block * kBlock;
    if (allWithin(numbers + begin, std::min(kBlock, rows - begin), least, most))
      return;
    int64_t known = bad.load();
    while (block < known && !bad.compare_exchange_weak(known, block)) {
    }
  });
  if (bad == blocks)
    return {};
  const T *first =
      std::find_if(numbers + bad * kBlock, numbers + rows,
                   [&](T number) { return number < least || number > most; });
  if (first == numbers + rows)
    return makeError(ErrorCode::OutOfRange,
                     "an index was changed while it was checked");
  return outOfRange(step, *first, first - numbers);
}

} // namespace

Status checkIndex(const CheckIndexStep &step, DType dtype, const void *index,
                  int64_t rows, ParallelFor &parallel) {
  if (dtype == DType::I32)
    return check(step, static_cast<const int32_t *>(index), rows, parallel);
  return check(step, static_cast<const int64_t *>(index), rows, parallel);
}

} // namespace gossamer
