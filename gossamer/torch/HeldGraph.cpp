#include "gossamer/torch/HeldGraph.h"

#include "gossamer/torch/TorchServices.h"

#include <torch/csrc/stable/ops.h>

#include <cstring>
#include <memory>

namespace gossamer {

using torch::stable::Tensor;

namespace {

/// The data of the tensor.
struct Held {
  const Held *self; // first, and only right where it was made
  std::vector<Tensor> arrays;
  GraphArrays graph;
};

} // namespace

EdgeArrays edgeArrays(const Tensor *tensors) {
  return {check(viewOf(tensors[0], "offsets")),
          check(viewOf(tensors[1], "neighbors")),
          check(viewOf(tensors[2], "edge ids"))};
}

GraphArrays graphOfSizes(const int64_t *sizes) {
  GraphArrays graph;
  graph.numSrc = sizes[0];
  graph.numDst = sizes[1];
  graph.numEdges = sizes[2];
  graph.maxInDegree = sizes[3];
  graph.maxOutDegree = sizes[4];
  return graph;
}

Tensor holdGraph(std::vector<Tensor> arrays, std::vector<int64_t> sizes) {
  if (arrays.size() != kArraysPerGraph)
    raise(makeError(ErrorCode::InvalidArgument, "a graph is ", kArraysPerGraph,
                    " arrays; got ", arrays.size()));
  if (sizes.size() != kSizesPerGraph)
    raise(makeError(ErrorCode::InvalidArgument, "a graph has ", kSizesPerGraph,
                    " sizes; got ", sizes.size()));
  auto held = std::make_unique<Held>();
  held->self = held.get();
  held->arrays = std::move(arrays);
  held->graph = graphOfSizes(sizes.data());
  held->graph.in = edgeArrays(&held->arrays[0]);
  held->graph.out = edgeArrays(&held->arrays[3]);
  int64_t bytes = sizeof(Held), stride = 1;
  Tensor tensor = torch::stable::from_blob(
      held.get(), {&bytes, 1}, {&stride, 1},
      torch::stable::Device(torch::headeronly::DeviceType::CPU),
      torch::headeronly::ScalarType::Byte,
      [](void *data) { delete static_cast<Held *>(data); });
  static_cast<void>(held.release());
  return tensor;
}

const GraphArrays &heldGraph(const Tensor &tensor, size_t number) {
  const Held *held = nullptr;
  if (tensor.is_cpu() && tensor.numel() == int64_t(sizeof(Held)) &&
      tensor.scalar_type() == torch::headeronly::ScalarType::Byte)
    std::memcpy(&held, tensor.data_ptr(), sizeof held);
  if (!held || held != tensor.data_ptr())
    raise(makeError(ErrorCode::InvalidArgument, "graph ", number,
                    " is not what hold_graph returned"));
  return held->graph;
}

} // namespace gossamer
