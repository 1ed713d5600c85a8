#include "gossamer/runtime/StridedCopy.h"

#include <algorithm>
#include <cstring>

namespace gossamer {

namespace {

constexpr int64_t kElementsPerChunk = 65536;

template <typename T>
void copyRun(T *target, const T *source, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; ++i)
    target[i] = source[i * stride];
}

/// A run of elements along the innermost axis.
void copyInnermost(char *target, const char *source, int64_t elementBytes,
                   int64_t count, int64_t stride) {
  if (stride == 1) {
    std::memcpy(target, source, size_t(count * elementBytes));
  } else if (elementBytes == 4) {
    copyRun(reinterpret_cast<uint32_t *>(target),
            reinterpret_cast<const uint32_t *>(source), count, stride);
  } else if (elementBytes == 8) {
    copyRun(reinterpret_cast<uint64_t *>(target),
            reinterpret_cast<const uint64_t *>(source), count, stride);
  } else {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(target + i * elementBytes, source + i * stride * elementBytes,
                  size_t(elementBytes));
  }
}

/// Copies everything below one index of the leading axes; gives the end of
/// what was written.
char *copyBlock(char *target, const char *source, int64_t elementBytes,
                std::span<const int64_t> shape,
                std::span<const int64_t> strides) {
  if (shape.empty()) {
    std::memcpy(target, source, size_t(elementBytes));
    return target + elementBytes;
  }
  if (shape.size() == 1) {
    copyInnermost(target, source, elementBytes, shape[0], strides[0]);
    return target + shape[0] * elementBytes;
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    target = copyBlock(target, source + i * strides[0] * elementBytes,
                       elementBytes, shape.subspan(1), strides.subspan(1));
  return target;
}

} // namespace

void copyToDense(void *target, const void *source, int64_t elementBytes,
                 std::span<const int64_t> shape,
                 std::span<const int64_t> strides, ParallelFor &parallel) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  if (elements == 0)
    return;
  char *to = static_cast<char *>(target);
  const char *from = static_cast<const char *>(source);
  if (elements <= kElementsPerChunk || shape.size() < 2) {
    copyBlock(to, from, elementBytes, shape, strides);
    return;
  }
  int64_t perRow = elements / shape[0];
  int64_t rows = std::max<int64_t>(kElementsPerChunk / perRow, 1);
  parallel.forEach((shape[0] + rows - 1) / rows, [&](int64_t chunk) {
    int64_t end = std::min(shape[0], (chunk + 1) * rows);
    for (int64_t row = chunk * rows; row < end; ++row)
      copyBlock(to + row * perRow * elementBytes,
                from + row * strides[0] * elementBytes, elementBytes,
                shape.subspan(1), strides.subspan(1));
  });
}

} // namespace gossamer
