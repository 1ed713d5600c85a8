#include "gossamer/runtime/Gemm.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/StorageTypes.h"

#include <algorithm>

namespace gossamer {

namespace {

// Four rows of the result share each loaded row of b; a block of b of this
// many rows and columns stays in the first-level cache.
constexpr int64_t kRows = 4;
constexpr int64_t kDepth = 64;
constexpr int64_t kCols = 64;

/// out[i, :] += a[i, k] * b[k, :] for `rows` rows at i, k in [k0, k1), and
/// columns [j0, j1).
template <typename T, int64_t rows>
void addPanel(const Matrix &a, const T *b, const Matrix &out, int64_t i,
              int64_t k0, int64_t k1, int64_t j0, int64_t j1) {
  const T *aData = static_cast<const T *>(a.data);
  T *outData = static_cast<T *>(out.data);
  for (int64_t k = k0; k < k1; ++k) {
    const T *bRow = b + k * out.cols;
    for (int64_t r = 0; r < rows; ++r) {
      T factor = aData[(i + r) * a.rowStride + k * a.colStride];
      T *outRow = outData + (i + r) * out.rowStride;
      for (int64_t j = j0; j < j1; ++j)
        outRow[j] += factor * bRow[j];
    }
  }
}

template <typename T>
void multiplyDense(const Matrix &a, const T *b, const Matrix &out) {
  T *outData = static_cast<T *>(out.data);
  for (int64_t i = 0; i < out.rows; ++i)
    std::fill_n(outData + i * out.rowStride, out.cols, T(0));
  for (int64_t j = 0; j < out.cols; j += kCols)
    for (int64_t k = 0; k < a.cols; k += kDepth) {
      int64_t jEnd = std::min(j + kCols, out.cols);
      int64_t kEnd = std::min(k + kDepth, a.cols);
      int64_t i = 0;
      for (; i + kRows <= out.rows; i += kRows)
        addPanel<T, kRows>(a, b, out, i, k, kEnd, j, jEnd);
      for (; i < out.rows; ++i)
        addPanel<T, 1>(a, b, out, i, k, kEnd, j, jEnd);
    }
}

template <typename T>
Status multiplyAs(const Matrix &a, const Matrix &b, const Matrix &out,
                  ScratchPool &pool) {
  const T *data = static_cast<const T *>(b.data);
  if (b.colStride == 1 && b.rowStride == b.cols) {
    multiplyDense(a, data, out);
    return {};
  }
  auto packed = pool.lease(size_t(b.rows) * size_t(b.cols) * sizeof(T));
  if (!packed)
    return makeError(ErrorCode::OutOfMemory, "no memory for a copy of a ",
                     b.rows, " by ", b.cols, " weight");
  T *copy = static_cast<T *>(packed.data());
  for (int64_t k = 0; k < b.rows; ++k)
    for (int64_t j = 0; j < b.cols; ++j)
      copy[k * b.cols + j] = data[k * b.rowStride + j * b.colStride];
  multiplyDense(a, static_cast<const T *>(copy), out);
  return {};
}

/// A dense copy of `matrix` in `to`.
Matrix widened(DType dtype, const Matrix &matrix, float *to) {
  const uint16_t *from = static_cast<const uint16_t *>(matrix.data);
  for (int64_t row = 0; row < matrix.rows; ++row)
    widen(dtype, from + row * matrix.rowStride, matrix.colStride, matrix.cols,
          to + row * matrix.cols);
  return {to, matrix.rows, matrix.cols, matrix.cols, 1};
}

} // namespace

Status multiplyWidened(DType dtype, const Matrix &a, const Matrix &b,
                       const Matrix &out, Gemm &gemm, ScratchPool &pool) {
  int64_t ofA = a.rows * a.cols, ofB = b.rows * b.cols;
  int64_t ofOut = out.rows * out.cols;
  auto lease = pool.lease(size_t(ofA + ofB + ofOut) * sizeof(float));
  if (!lease)
    return makeError(ErrorCode::OutOfMemory, "no memory to multiply ", a.rows,
                     " by ", a.cols, " numbers of ", dtypeName(dtype),
                     " in float32");
  float *wide = static_cast<float *>(lease.data());
  Matrix product{wide + ofA + ofB, out.rows, out.cols, out.cols, 1};
  Status status = gemm.multiply(DType::F32, widened(dtype, a, wide),
                                widened(dtype, b, wide + ofA), product);
  if (status.ok())
    narrow(dtype, static_cast<const float *>(product.data), ofOut, out.data);
  return status;
}

Status PlainGemm::multiply(DType dtype, const Matrix &a, const Matrix &b,
                           const Matrix &out) {
  if (isStorageOnly(dtype))
    return multiplyWidened(dtype, a, b, out, *this, pool);
  return dtype == DType::F32 ? multiplyAs<float>(a, b, out, pool)
                             : multiplyAs<double>(a, b, out, pool);
}

} // namespace gossamer
