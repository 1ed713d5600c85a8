#include "gossamer/runtime/Gemm.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace gossamer;

namespace {

template <typename T>
void expectProduct(DType dtype, int64_t rows, int64_t depth, int64_t cols,
                   bool transposed, int64_t gap) {
  std::mt19937 random(3);
  std::uniform_real_distribution<T> unit(-1, 1);
  std::vector<T> a(size_t(rows * (depth + gap))), b(size_t(depth * cols));
  for (auto *table : {&a, &b})
    for (T &x : *table)
      x = unit(random);
  std::vector<T> out(size_t(rows * cols), T(99));
  Matrix left{a.data(), rows, depth, depth + gap, 1};
  Matrix right{b.data(), depth, cols, transposed ? 1 : cols,
               transposed ? depth : 1};
  Matrix result{out.data(), rows, cols, cols, 1};
  ScratchPool pool;
  ASSERT_TRUE(PlainGemm(pool).multiply(dtype, left, right, result).ok());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += double(a[size_t(i * left.rowStride + k)]) *
               double(b[size_t(k * right.rowStride + j * right.colStride)]);
      ASSERT_NEAR(out[size_t(i * cols + j)], sum,
                  sizeof(T) == 4 ? 1e-4 : 1e-12);
    }
}

TEST(Gemm, OddShapes) {
  for (int64_t rows : {1, 3, 4, 9})
    for (int64_t depth : {1, 16, 65, 130})
      for (int64_t cols : {1, 7, 64, 100})
        for (bool transposed : {false, true}) {
          expectProduct<float>(DType::F32, rows, depth, cols, transposed, 0);
          expectProduct<double>(DType::F64, rows, depth, cols, transposed, 5);
        }
}

} // namespace
