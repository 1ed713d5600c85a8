#include "gossamer/runtime/RowSums.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/PartialSums.h"
#include "gossamer/runtime/StorageTypes.h"

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

/// `count` rows from `begin` on, as numbers that are added: where they are, or
/// widened in `copy`.
template <typename T>
const T *rowsAs(DType dtype, const Matrix &table, int64_t begin, int64_t count,
                T *copy) {
  if constexpr (std::is_same_v<T, float>)
    if (isStorageOnly(dtype)) {
      const uint16_t *rows = static_cast<const uint16_t *>(table.data);
      widen(dtype, rows + begin * table.cols, 1, count * table.cols, copy);
      return copy;
    }
  return static_cast<const T *>(table.data) + begin * table.cols;
}

/// `partial` has three rows: the sum, the sum of the current run, and room for
/// a widened row.
template <typename T>
void sumBlock(DType dtype, const Matrix &table, int64_t first, int64_t count,
              T *partial) {
  int64_t cols = table.cols;
  T *run = partial + cols, *copy = run + cols;
  std::fill_n(partial, cols, T(0));
  for (int64_t begin = 0; begin < count; begin += kRowsPerRun) {
    std::fill_n(run, cols, T(0));
    int64_t end = std::min(begin + kRowsPerRun, count);
    for (int64_t row = begin; row < end; ++row)
      addInto(run, rowsAs<T>(dtype, table, first + row, 1, copy), cols);
    addInto(partial, run, cols);
  }
}

template <typename T>
Status sumRowsOf(DType dtype, const Matrix &table, T *out,
                 ParallelFor &parallel, ScratchPool &pool) {
  int64_t cols = table.cols;
  Blocks blocks(table.rows, 3 * cols * int64_t(sizeof(T)));
  int64_t bytes = blocks.count * 3 * cols * int64_t(sizeof(T));
  ScratchPool::Lease lease = pool.lease(size_t(bytes));
  if (bytes && !lease)
    return noMemoryForParts(bytes);
  T *partials = static_cast<T *>(lease.data());
  parallel.forEach(blocks.count, [&](int64_t block) {
    int64_t begin = block * blocks.rows;
    sumBlock(dtype, table, begin, std::min(blocks.rows, table.rows - begin),
             partials + block * 3 * cols);
  });
  addParts(computedIn(dtype), partials, blocks.count, 3 * cols, cols, out,
           parallel);
  return {};
}

/// The product of `count` rows of two tables from `begin` on.
template <typename T>
Status contractBlock(DType dtype, const Matrix &left, const Matrix &right,
                     int64_t begin, int64_t count, T *part, Gemm &gemm,
                     ScratchPool &pool) {
  int64_t cols = isStorageOnly(dtype) ? left.cols + right.cols : 0;
  int64_t bytes = count * cols * int64_t(sizeof(T));
  ScratchPool::Lease lease = pool.lease(size_t(bytes));
  if (bytes && !lease)
    return noMemoryForParts(bytes);
  T *copy = static_cast<T *>(lease.data());
  const T *ofLeft = rowsAs<T>(dtype, left, begin, count, copy);
  const T *ofRight =
      rowsAs<T>(dtype, right, begin, count, copy + count * left.cols);
  Matrix a{const_cast<T *>(ofLeft), left.cols, count, 1, left.cols};
  Matrix b{const_cast<T *>(ofRight), count, right.cols, right.cols, 1};
  Matrix out{part, left.cols, right.cols, right.cols, 1};
  return gemm.multiply(computedIn(dtype), a, b, out);
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
    Status status = contractBlock(dtype, left, right, begin, count,
                                  partials + block * size, gemm, pool);
    if (status.ok())
      return;
    std::lock_guard lock(guard);
    failure = std::move(status);
  });
  if (failure.ok())
    addParts(computedIn(dtype), partials, blocks.count, size, size, out,
             parallel);
  return failure;
}

} // namespace

Status sumRows(DType dtype, const Matrix &table, void *out,
               ParallelFor &parallel, ScratchPool &pool) {
  if (computedIn(dtype) == DType::F32)
    return sumRowsOf(dtype, table, static_cast<float *>(out), parallel, pool);
  return sumRowsOf(dtype, table, static_cast<double *>(out), parallel, pool);
}

Status contractRows(DType dtype, const Matrix &left, const Matrix &right,
                    void *out, Gemm &gemm, ParallelFor &parallel,
                    ScratchPool &pool) {
  if (left.cols == 0 || right.cols == 0)
    return {};
  if (computedIn(dtype) == DType::F32)
    return contractRowsOf(dtype, left, right, static_cast<float *>(out), gemm,
                          parallel, pool);
  return contractRowsOf(dtype, left, right, static_cast<double *>(out), gemm,
                        parallel, pool);
}

} // namespace gossamer
