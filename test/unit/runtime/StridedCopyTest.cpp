#include "gossamer/runtime/StridedCopy.h"

#include "gossamer/runtime/ThreadPool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

using namespace gossamer;

namespace {

template <typename T>
void expectCopies(std::vector<int64_t> shape, std::vector<int64_t> strides) {
  int64_t extent = 1, count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    extent += (std::max<int64_t>(shape[i], 1) - 1) * strides[i];
    count *= shape[i];
  }
  std::vector<T> source(static_cast<size_t>(extent));
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = T(i * 31 + 5);
  std::vector<T> target(static_cast<size_t>(count), T(0));
  ThreadPool parallel(2);
  copyToDense(target.data(), source.data(), sizeof(T), shape, strides,
              parallel);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = shape.size(); axis-- > 0;) {
      at += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    ASSERT_EQ(target[size_t(i)], source[size_t(at)]) << i;
  }
}

template <typename T> void expectAllShapes() {
  expectCopies<T>({}, {});
  expectCopies<T>({5}, {1});
  expectCopies<T>({5}, {3});
  expectCopies<T>({4, 0}, {7, 1});
  expectCopies<T>({3, 4}, {1, 3});         // transposed
  expectCopies<T>({2, 3, 4}, {40, 10, 2}); // gaps everywhere
  expectCopies<T>({3, 4}, {0, 1});         // broadcast
  expectCopies<T>({1000, 300}, {301, 1});  // parallel
  expectCopies<T>({300, 1000}, {1, 300});  // parallel, transposed
}

TEST(StridedCopy, AllElementSizes) {
  expectAllShapes<uint8_t>();
  expectAllShapes<uint32_t>();
  expectAllShapes<double>();
}

} // namespace
