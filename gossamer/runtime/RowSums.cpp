#include "gossamer/runtime/RowSums.h"

#include "gossamer/runtime/PartialSums.h"

#include <algorithm>
#include <mutex>

namespace gossamer {

namespace {

constexpr int64_t kMaxBlocks = 256;
constexpr int64_t kMinRowsPerBlock = 512;
/// Rows that are added one after the other, before their sum joins the block's.
constexpr int64_t kRowsPerRun = 64;

/// Rows in equal blocks, with one partial result each.
struct Blocks {
  int64_t count;
  int64_t rows;

  Blocks(int64_t allRows, int64_t partialBytes) {
    int64_t affordable = affordableParts(partialBytes, kMaxBlocks);
    rows = std::max(kMinRowsPerBlock, (allRows + affordable - 1) / affordable);
    count = (allRows + rows - 1) / rows;
  }
};

template <typename T>
void addInto(T *__restrict sum, const T *__restrict values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    sum[i] += values[i];
}

/// `partial` has two rows: the sum, and the sum of the current run.
template <typename T>
void sumBlock(const T *rows, int64_t count, int64_t cols, T *partial) {
  T *run = partial + cols;
  std::fill_n(partial, cols, T(0));
  for (int64_t begin = 0; begin < count; begin += kRowsPerRun) {
    std::fill_n(run, cols, T(0));
    int64_t end = std::min(begin + kRowsPerRun, count);
    for (int64_t row = begin; row < end; ++row)
      addInto(run, rows + row * cols, cols);
    addInto(partial, run, cols);
  }
}

template <typename T>
Status sumRowsOf(DType dtype, const Matrix &table, T *out,
                 ParallelFor &parallel, ScratchPool &pool) {
  int64_t cols = table.cols;
  Blocks blocks(table.rows, 2 * cols * int64_t(sizeof(T)));
  int64_t bytes = blocks.count * 2 * cols * int64_t(sizeof(T));
  ScratchPool::Lease lease = pool.lease(size_t(bytes));
  if (bytes && !lease)
    return noMemoryForParts(bytes);
  T *partials = static_cast<T *>(lease.data());
  const T *rows = static_cast<const T *>(table.data);
  parallel.forEach(blocks.count, [&](int64_t block) {
    int64_t begin = block * blocks.rows;
    sumBlock(rows + begin * cols, std::min(blocks.rows, table.rows - begin),
             cols, partials + block * 2 * cols);
  });
  addParts(dtype, partials, blocks.count, 2 * cols, cols, out, parallel);
  return {};
}

template <typename T>
Status contractRowsOf(DType dtype, const Matrix &left, const Matrix &right,
                      T *out, Gemm &gemm, ParallelFor &parallel,
                      ScratchPool &pool) {
  int64_t size = left.cols * right.cols;
  Blocks blocks(left.rows, size * int64_t(sizeof(T)));
  int64_t bytes = blocks.count * size * int64_t(sizeof(T));
  ScratchPool::Lease lease = pool.lease(size_t(bytes));
  if (bytes && !lease)
    return noMemoryForParts(bytes);
  T *partials = static_cast<T *>(lease.data());
  std::mutex guard;
  Status failure;
  parallel.forEach(blocks.count, [&](int64_t block) {
    int64_t begin = block * blocks.rows;
    int64_t count = std::min(blocks.rows, left.rows - begin);
    Matrix a{static_cast<T *>(left.data) + begin * left.cols, left.cols, count,
             1, left.cols};
    Matrix b{static_cast<T *>(right.data) + begin * right.cols, count,
             right.cols, right.cols, 1};
    Matrix part{partials + block * size, left.cols, right.cols, right.cols, 1};
    Status status = gemm.multiply(dtype, a, b, part);
    if (status.ok())
      return;
    std::lock_guard lock(guard);
    failure = std::move(status);
  });
  if (failure.ok())
    addParts(dtype, partials, blocks.count, size, size, out, parallel);
  return failure;
}

} // namespace

Status sumRows(DType dtype, const Matrix &table, void *out,
               ParallelFor &parallel, ScratchPool &pool) {
  if (dtype == DType::F32)
    return sumRowsOf(dtype, table, static_cast<float *>(out), parallel, pool);
  return sumRowsOf(dtype, table, static_cast<double *>(out), parallel, pool);
}

Status contractRows(DType dtype, const Matrix &left, const Matrix &right,
                    void *out, Gemm &gemm, ParallelFor &parallel,
                    ScratchPool &pool) {
  if (left.cols == 0 || right.cols == 0)
    return {};
  if (dtype == DType::F32)
    return contractRowsOf(dtype, left, right, static_cast<float *>(out), gemm,
                          parallel, pool);
  return contractRowsOf(dtype, left, right, static_cast<double *>(out), gemm,
                        parallel, pool);
}

} // namespace gossamer
