#include "gossamer/torch/TorchServices.h"

#include "gossamer/program/Validate.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>

namespace gossamer {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

namespace {

ScalarType scalarType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return ScalarType::Float;
  case DType::F64:
    return ScalarType::Double;
  case DType::I32:
    return ScalarType::Int;
  case DType::I64:
    return ScalarType::Long;
  case DType::Bool:
    return ScalarType::Bool;
  case DType::BF16:
    return ScalarType::BFloat16;
  case DType::F16:
    return ScalarType::Half;
  }
  return ScalarType::Undefined;
}

/// The number that torch's C interface has for it.
int32_t torchDType(DType dtype) {
  return torch::stable::detail::to<int32_t>(
      torch::stable::detail::from(scalarType(dtype)));
}

/// Nobody frees the data through the tensor.
Tensor borrowed(DType dtype, const Matrix &matrix) {
  std::array<int64_t, 2> shape = {matrix.rows, matrix.cols};
  std::array<int64_t, 2> strides = {matrix.rowStride, matrix.colStride};
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_tensor_from_blob(
      matrix.data, 2, shape.data(), strides.data(), 0, torchDType(dtype),
      aoti_torch_device_type_cpu(), 0, &handle));
  return Tensor(handle);
}

/// Products that a plain loop does in the microseconds that torch takes to
/// wrap three tensors.
constexpr int64_t kSmallProduct = 16384;

/// Outputs of so many bytes are leased. Smaller ones cost torch's allocator no
/// page faults.
constexpr int64_t kLeasedOutput = int64_t(4) << 20;

std::vector<int64_t> denseStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

/// A tensor on a block of the pool, which gets it back with the last view.
Tensor leasedTensor(DType dtype, std::span<const int64_t> shape,
                    ScratchPool::Lease lease) {
  std::vector<int64_t> strides = denseStrides(shape);
  void *data = lease.data();
  return torch::stable::from_blob(
      data, {shape.data(), shape.size()}, {strides.data(), strides.size()},
      torch::stable::Device(torch::headeronly::DeviceType::CPU),
      scalarType(dtype),
      [lease = std::move(lease)](void *) mutable { lease.end(); });
}

} // namespace

void TorchFor::run(int64_t chunks, Body body, void *context) {
  if (chunks <= 0)
    return;
  // Chunks are handed out one by one: torch would give each thread one fixed
  // stretch, and all would wait for the slowest.
  std::atomic<int64_t> next = 0;
  torch::stable::parallel_for(
      0, std::min<int64_t>(chunks, threads()), 1, [&](int64_t, int64_t) {
        for (int64_t c;
             (c = next.fetch_add(1, std::memory_order_relaxed)) < chunks;)
          body(context, c);
      });
}

int TorchFor::threads() const { return int(torch::stable::get_num_threads()); }

Status TorchGemm::multiply(DType dtype, const Matrix &a, const Matrix &b,
                           const Matrix &out) {
  if (a.rows * a.cols * b.cols <= kSmallProduct)
    return plain.multiply(dtype, a, b, out);
  // Torch's products of 16 bits depend on the number of threads, and are slow
  // where the machine has no instructions for them.
  if (isStorageOnly(dtype))
    return multiplyWidened(dtype, a, b, out, *this, plain.scratch());
  try {
    Tensor result = borrowed(dtype, out);
    std::array<StableIValue, 3> stack = {
        torch::stable::detail::from(borrowed(dtype, a)),
        torch::stable::detail::from(borrowed(dtype, b)),
        torch::stable::detail::from(result)};
    TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
        "aten::mm", "out", stack.data(), TORCH_ABI_VERSION));
    static_cast<void>(torch::stable::detail::to<Tensor>(stack[0]));
  } catch (const std::exception &failure) {
    return makeError(ErrorCode::Internal, "matrix product of ", a.rows, " x ",
                     a.cols, " and ", b.rows, " x ", b.cols,
                     " failed: ", failure.what());
  }
  return {};
}

Tensor emptyTensor(DType dtype, std::span<const int64_t> shape) {
  std::vector<int64_t> strides = denseStrides(shape);
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      int64_t(shape.size()), shape.data(), strides.data(), torchDType(dtype),
      aoti_torch_device_type_cpu(), 0, &handle));
  return Tensor(handle);
}

Result<void *> TensorOutputs::allocate(size_t index, DType dtype,
                                       std::span<const int64_t> shape) {
  int64_t bytes = elementBytes(dtype);
  for (int64_t extent : shape)
    bytes *= extent;
  try {
    ScratchPool::Lease lease;
    if (bytes >= kLeasedOutput)
      lease = pool.lease(size_t(bytes));
    // torch's own message when there is no memory.
    tensors[index] = lease ? leasedTensor(dtype, shape, std::move(lease))
                           : emptyTensor(dtype, shape);
  } catch (const std::exception &failure) {
    return makeError(ErrorCode::OutOfMemory, "cannot make output ", index, ": ",
                     failure.what());
  }
  return tensors[index].data_ptr();
}

Result<TensorView> viewOf(const Tensor &tensor, const std::string &what) {
  if (!tensor.is_cpu())
    return makeError(ErrorCode::InvalidArgument, what,
                     " is not on the CPU; move it with .cpu()");
  int32_t layout, dtype;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor.get(), &layout));
  if (layout != aoti_torch_layout_strided())
    return makeError(ErrorCode::InvalidArgument, what,
                     " is sparse; use .to_dense()");
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  for (DType known : {DType::F32, DType::F64, DType::I32, DType::I64,
                      DType::Bool, DType::BF16, DType::F16})
    if (dtype == torchDType(known)) {
      auto shape = tensor.sizes(), strides = tensor.strides();
      return TensorView{tensor.data_ptr(),
                        known,
                        {shape.data(), shape.size()},
                        {strides.data(), strides.size()}};
    }
  return makeError(
      ErrorCode::InvalidArgument, what, " has dtype ",
      torch::headeronly::toString(tensor.scalar_type()),
      ", expected Float, Double, BFloat16, Half, Int, Long or Bool");
}

void raise(const Error &error) {
  if (error.code == ErrorCode::InvalidArgument ||
      error.code == ErrorCode::Corrupt)
    throw std::invalid_argument("gossamer: " + error.text);
  if (error.code == ErrorCode::OutOfRange)
    throw std::out_of_range("gossamer: " + error.text);
  throw std::runtime_error("gossamer: " + error.text);
}

void check(const Status &status) {
  if (!status.ok())
    raise(status.error());
}

} // namespace gossamer
