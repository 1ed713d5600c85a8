#include "gossamer/runtime/PartialSums.h"

#include <algorithm>

namespace gossamer {

namespace {

/// So many bytes of parts cost little beside a sum that needs more than one.
constexpr int64_t kFewBytes = int64_t(4) << 20;
/// Large parts may take more, while there are fewer than keep threads busy.
constexpr int64_t kMaxBytes = int64_t(16) << 20, kBusyParts = 64;
/// Elements of the result that one thread sums at a time.
constexpr int64_t kSlice = 4096;

template <typename T>
void addPartsOf(const T *parts, int64_t count, int64_t stride, int64_t size,
                T *out, ParallelFor &parallel) {
  parallel.forEach((size + kSlice - 1) / kSlice, [&](int64_t slice) {
    int64_t begin = slice * kSlice, length = std::min(kSlice, size - begin);
    T *__restrict sum = out + begin;
    std::fill_n(sum, length, T(0));
    for (int64_t part = 0; part < count; ++part) {
      const T *__restrict values = parts + part * stride + begin;
      for (int64_t i = 0; i < length; ++i)
        sum[i] += values[i];
    }
  });
}

} // namespace

int64_t affordableParts(int64_t bytes, int64_t most) {
  bytes = std::max<int64_t>(bytes, 1);
  int64_t affordable =
      std::max(kFewBytes / bytes, std::min(kMaxBytes / bytes, kBusyParts));
  return std::clamp(affordable, int64_t(1), std::max<int64_t>(most, 1));
}

Error noMemoryForParts(int64_t bytes) {
  return makeError(ErrorCode::OutOfMemory, "no memory for partial sums of ",
                   bytes, " bytes");
}

void addParts(DType dtype, const void *parts, int64_t count, int64_t stride,
              int64_t size, void *out, ParallelFor &parallel) {
  if (dtype == DType::F32)
    return addPartsOf(static_cast<const float *>(parts), count, stride, size,
                      static_cast<float *>(out), parallel);
  addPartsOf(static_cast<const double *>(parts), count, stride, size,
             static_cast<double *>(out), parallel);
}

} // namespace gossamer
