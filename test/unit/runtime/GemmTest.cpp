#include "gossamer/runtime/Gemm.h"
#include "gossamer/runtime/StorageTypes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace gossamer;

namespace {

/// Row i of `left`, a table of T, times column j of `right`.
template <typename T>
double dot(const Matrix &left, int64_t i, const Matrix &right, int64_t j) {
  const T *a = static_cast<const T *>(left.data);
  const T *b = static_cast<const T *>(right.data);
  double sum = 0;
  for (int64_t k = 0; k < left.cols; ++k)
    sum += double(a[i * left.rowStride + k * left.colStride]) *
           double(b[k * right.rowStride + j * right.colStride]);
  return sum;
}

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
    for (int64_t j = 0; j < cols; ++j)
      ASSERT_NEAR(out[size_t(i * cols + j)], dot<T>(left, i, right, j),
                  sizeof(T) == 4 ? 1e-4 : 1e-12);
}

/// Factors of 8 or 11 bits have exact products in F32: what is left is one
/// rounding of the sum.
void expectWidenedProduct(DType dtype, bool transposed) {
  constexpr int64_t rows = 5, depth = 70, cols = 9, gap = 3;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> unit(-1, 1);
  std::vector<float> wideA(rows * (depth + gap)), wideB(depth * cols);
  std::vector<uint16_t> a(wideA.size()), b(wideB.size()), out(rows * cols);
  auto fill = [&](std::vector<float> &wide, std::vector<uint16_t> &half) {
    for (float &x : wide)
      x = unit(random);
    narrow(dtype, wide.data(), int64_t(wide.size()), half.data());
    widen(dtype, half.data(), 1, int64_t(half.size()), wide.data());
  };
  fill(wideA, a);
  fill(wideB, b);
  Matrix left{a.data(), rows, depth, depth + gap, 1};
  Matrix right{b.data(), depth, cols, transposed ? 1 : cols,
               transposed ? depth : 1};
  Matrix result{out.data(), rows, cols, cols, 1};
  ScratchPool pool;
  ASSERT_TRUE(PlainGemm(pool).multiply(dtype, left, right, result).ok());
  Matrix wideLeft = left, wideRight = right;
  wideLeft.data = wideA.data();
  wideRight.data = wideB.data();
  std::vector<float> found(out.size());
  widen(dtype, out.data(), 1, int64_t(out.size()), found.data());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = dot<float>(wideLeft, i, wideRight, j);
      double unitInLastPlace = dtype == DType::BF16 ? 1.0 / 256 : 1.0 / 2048;
      ASSERT_NEAR(found[size_t(i * cols + j)], sum,
                  std::abs(sum) * unitInLastPlace + 1e-5);
    }
}

TEST(Gemm, StorageTypes) {
  for (DType dtype : {DType::BF16, DType::F16})
    for (bool transposed : {false, true})
      expectWidenedProduct(dtype, transposed);
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
