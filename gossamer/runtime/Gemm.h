// Matrix products of a program.
#ifndef GOSSAMER_RUNTIME_GEMM_H
#define GOSSAMER_RUNTIME_GEMM_H

#include "gossamer/program/Program.h"
#include "gossamer/program/Result.h"
#include "gossamer/runtime/ScratchPool.h"

#include <cstdint>

namespace gossamer {

/// A matrix of floats in memory; strides count elements.
struct Matrix {
  void *data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t rowStride = 0;
  int64_t colStride = 1;
};

/// The executor cuts a product into blocks of rows whose size depends on the
/// shape alone, and computes blocks in parallel: so a product has the same bits
/// for any number of threads, when `multiply` itself uses one.
class Gemm {
public:
  virtual ~Gemm() = default;

  /// out = a * b. `out` is dense; no extent is zero. Products of BF16 and F16
  /// are summed in F32 and rounded once. Several threads may be here at once.
  virtual Status multiply(DType dtype, const Matrix &a, const Matrix &b,
                          const Matrix &out) = 0;
};

/// out = a * b for matrices of BF16 or F16, by a product of F32.
Status multiplyWidened(DType dtype, const Matrix &a, const Matrix &b,
                       const Matrix &out, Gemm &gemm, ScratchPool &pool);

/// A blocked loop, for use without torch.
class PlainGemm final : public Gemm {
public:
  explicit PlainGemm(ScratchPool &scratch) : pool(scratch) {}

  Status multiply(DType dtype, const Matrix &a, const Matrix &b,
                  const Matrix &out) override;

  ScratchPool &scratch() { return pool; }

private:
  ScratchPool &pool;
};

} // namespace gossamer

#endif
