#include "gossamer/runtime/RowSums.h"
#include "gossamer/runtime/StorageTypes.h"
#include "gossamer/runtime/ThreadPool.h"
#include "test/unit/runtime/TestPrograms.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace gossamer;
using namespace gossamer::test;

namespace {

template <typename T> constexpr DType dtypeOf() {
  return sizeof(T) == 4 ? DType::F32 : DType::F64;
}

/// Signed, with a mean, so that the sum is not all cancellation.
template <typename T> std::vector<T> values(int64_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> unit(-1, 2);
  std::vector<T> table(static_cast<size_t>(count));
  for (T &x : table)
    x = unit(random);
  return table;
}

Matrix dense(void *data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols, 1};
}

template <typename T>
std::vector<T> contracted(std::vector<T> left, std::vector<T> right,
                          int64_t rows, int64_t k, int64_t o,
                          ParallelFor &parallel) {
  std::vector<T> out(size_t(k * o), T(99));
  ScratchPool pool;
  PlainGemm gemm(pool);
  EXPECT_TRUE(contractRows(dtypeOf<T>(), dense(left.data(), rows, k),
                           dense(right.data(), rows, o), out.data(), gemm,
                           parallel, pool)
                  .ok());
  return out;
}

template <typename T> void expectSums(int64_t rows, int64_t cols) {
  std::vector<T> table = values<T>(rows * cols);
  std::vector<double> exact(size_t(cols), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      exact[size_t(c)] += double(table[size_t(r * cols + c)]);
  std::vector<T> out(size_t(cols), T(99));
  ScratchPool pool;
  SerialFor serial;
  ASSERT_TRUE(sumRows(dtypeOf<T>(), dense(table.data(), rows, cols), out.data(),
                      serial, pool)
                  .ok());
  double tolerance = sizeof(T) == 4 ? 1e-6 : 1e-13;
  for (int64_t c = 0; c < cols; ++c)
    ASSERT_NEAR(out[size_t(c)], exact[size_t(c)],
                tolerance * std::max<double>(1, double(rows)));
}

TEST(RowSums, SumsOfAnyShape) {
  for (int64_t rows : {0, 1, 63, 512, 513, 200'000})
    for (int64_t cols : {1, 3, 64}) {
      expectSums<float>(rows, cols);
      expectSums<double>(rows, cols);
    }
  expectSums<float>(5, 0);
}

TEST(RowSums, ContractionIsTransposedTimesTable) {
  SerialFor serial;
  for (int64_t rows : {0, 1, 700, 3000})
    for (auto [k, o] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {64, 16}}) {
      std::vector<double> left = values<double>(rows * k);
      std::vector<double> right = values<double>(rows * o + 1);
      right.erase(right.begin()); // not the same numbers as on the left
      std::vector<double> out = contracted(left, right, rows, k, o, serial);
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < o; ++j) {
          double sum = 0;
          for (int64_t r = 0; r < rows; ++r)
            sum += left[size_t(r * k + i)] * right[size_t(r * o + j)];
          ASSERT_NEAR(out[size_t(i * o + j)], sum, 1e-9);
        }
    }
}

/// What is summed is what is stored, in F32.
TEST(RowSums, StorageTypesAreSummedWide) {
  constexpr int64_t rows = 3000, cols = 4;
  SerialFor serial;
  ScratchPool pool;
  PlainGemm gemm(pool);
  for (DType dtype : {DType::BF16, DType::F16}) {
    std::vector<float> wide = values<float>(rows * cols);
    std::vector<uint16_t> half(wide.size());
    narrow(dtype, wide.data(), rows * cols, half.data());
    widen(dtype, half.data(), 1, rows * cols, wide.data());
    Matrix ofHalf = dense(half.data(), rows, cols);
    Matrix ofWide = dense(wide.data(), rows, cols);
    std::vector<float> sums(cols, 99), right(cols, 98);
    ASSERT_TRUE(sumRows(dtype, ofHalf, sums.data(), serial, pool).ok());
    ASSERT_TRUE(sumRows(DType::F32, ofWide, right.data(), serial, pool).ok());
    EXPECT_EQ(sums, right);
    std::vector<float> product(cols * cols, 99), rightProduct(cols * cols, 98);
    ASSERT_TRUE(
        contractRows(dtype, ofHalf, ofHalf, product.data(), gemm, serial, pool)
            .ok());
    ASSERT_TRUE(contractRows(DType::F32, ofWide, ofWide, rightProduct.data(),
                             gemm, serial, pool)
                    .ok());
    EXPECT_EQ(product, rightProduct);
  }
}

TEST(RowSums, BitsDoNotDependOnThreads) {
  SerialFor serial;
  ThreadPool threads(3);
  std::vector<float> left = values<float>(20'000 * 8);
  std::vector<float> right = values<float>(20'000 * 4);
  EXPECT_EQ(contracted(left, right, 20'000, 8, 4, serial),
            contracted(left, right, 20'000, 8, 4, threads));
}

TEST(RowSums, StepsOfAProgram) {
  Program program;
  program.values = {value(RowSet::Dst, {2}), value(RowSet::Dst, {3}),
                    value(RowSet::None, {2}), value(RowSet::None, {2, 3}),
                    value(RowSet::Src, {2})};
  program.inputs = {0, 1};
  program.outputs = {2, 3, 4};
  program.steps = {sumRowsStep(0, 2), contractRowsStep(0, 1, 3),
                   padRowsStep(0, 4)};
  Result<std::shared_ptr<const Executor>> executor = Executor::create(program);
  ASSERT_TRUE(executor.ok()) << executor.error().text;
  GraphArrays graph; // 4 sources, 3 destinations
  graph.numSrc = 4;
  graph.numDst = 3;
  OwnedTensor<float> x({3, 2}, {1, -2, 3, 4, 5, 6});
  OwnedTensor<float> g({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, -1});
  TensorView views[] = {x.view(), g.view()};
  VectorOutputs outputs;
  ScratchPool pool;
  SerialFor serial;
  PlainGemm gemm(pool);
  Status status =
      executor.value()->run({&graph, 1}, views, {serial, gemm, outputs, pool});
  ASSERT_TRUE(status.ok()) << status.error().text;
  EXPECT_EQ(outputs.outputs[0], (std::vector<float>{9, 8}));
  EXPECT_EQ(outputs.outputs[1], (std::vector<float>{1, 3, -5, -2, 4, -6}));
  EXPECT_EQ(outputs.outputs[2], (std::vector<float>{1, -2, 3, 4, 5, 6, 0, 0}));
}

} // namespace
