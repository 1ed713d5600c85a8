// The runtime's surroundings inside torch: torch's threads, torch's matrix
// product, tensors as outputs.
#ifndef GOSSAMER_TORCH_TORCHSERVICES_H
#define GOSSAMER_TORCH_TORCHSERVICES_H

#include "gossamer/program/Result.h"
#include "gossamer/runtime/Executor.h"
#include "gossamer/runtime/Gemm.h"
#include "gossamer/runtime/ParallelFor.h"
#include "gossamer/runtime/TensorView.h"

#include <torch/csrc/stable/tensor.h>

#include <span>
#include <string>
#include <vector>

namespace gossamer {

/// torch's pool, `torch.get_num_threads()` wide; serial inside another parallel
/// region, as torch's own operators are.
class TorchFor final : public ParallelFor {
public:
  void run(int64_t chunks, Body body, void *context) override;
  int threads() const override;
};

/// aten::mm, and a plain loop where a call of it costs more than the product.
class TorchGemm final : public Gemm {
public:
  explicit TorchGemm(ScratchPool &scratch) : plain(scratch) {}

  Status multiply(DType dtype, const Matrix &a, const Matrix &b,
                  const Matrix &out) override;

private:
  PlainGemm plain;
};

/// Fresh tensors. Large ones lie on blocks of the pool and return them when
/// torch frees them, on any thread; the pool must outlive them.
class TensorOutputs final : public Allocator {
public:
  TensorOutputs(size_t count, ScratchPool &scratch)
      : tensors(count), pool(scratch) {}

  Result<void *> allocate(size_t index, DType dtype,
                          std::span<const int64_t> shape) override;

  std::vector<torch::stable::Tensor> take() { return std::move(tensors); }

private:
  std::vector<torch::stable::Tensor> tensors;
  ScratchPool &pool;
};

/// A new CPU tensor with arbitrary contents.
torch::stable::Tensor emptyTensor(DType dtype, std::span<const int64_t> shape);

/// A view of `tensor`, which must outlive it, under the name `what` in errors.
Result<TensorView> viewOf(const torch::stable::Tensor &tensor,
                          const std::string &what);

/// Throws what Python sees as ValueError for InvalidArgument and Corrupt, and
/// as RuntimeError otherwise.
[[noreturn]] void raise(const Error &error);

void check(const Status &status);

template <typename T> T check(Result<T> result) {
  if (!result.ok())
    raise(result.error());
  return std::move(result.value());
}

} // namespace gossamer

#endif
