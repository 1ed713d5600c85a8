// A borrowed tensor: where it is, its dtype, and its shape and strides in
// elements. Row tables have the row axis first.
#ifndef GOSSAMER_RUNTIME_TENSORVIEW_H
#define GOSSAMER_RUNTIME_TENSORVIEW_H

#include "gossamer/program/Program.h"

#include <cstdint>
#include <span>

namespace gossamer {

struct TensorView {
  const void *data = nullptr;
  DType dtype = DType::F32;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    return count;
  }

  /// Whether the elements lie in row-major order without gaps.
  bool isDense() const {
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (shape[axis] != 1 && strides[axis] != stride && elements() != 0)
        return false;
      stride *= shape[axis];
    }
    return true;
  }
};

} // namespace gossamer

#endif
