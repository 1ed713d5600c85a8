// Graph arguments in tensors: taken apart once, handed over at each call.
#ifndef GOSSAMER_TORCH_HELDGRAPH_H
#define GOSSAMER_TORCH_HELDGRAPH_H

#include "gossamer/runtime/Call.h"

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <vector>

namespace gossamer {

inline constexpr size_t kArraysPerGraph = 6;
inline constexpr size_t kSizesPerGraph = 5;

/// The arrays and sizes of one graph as a tensor, which keeps the arrays alive.
/// An operator's caller pays for every tensor that it passes, so one for a
/// graph is cheaper than six. Its bytes are of this process and mean nothing to
/// others: a copy of them is no graph.
torch::stable::Tensor holdGraph(std::vector<torch::stable::Tensor> arrays,
                                std::vector<int64_t> sizes);

/// What `holdGraph` put into a tensor, which must outlive the result; an error
/// for any other tensor. `number` is that of the graph argument.
const GraphArrays &heldGraph(const torch::stable::Tensor &tensor,
                             size_t number);

/// In and out arrays as `holdGraph` takes them.
EdgeArrays edgeArrays(const torch::stable::Tensor *tensors);

/// A graph of which only the sizes are known.
GraphArrays graphOfSizes(const int64_t *sizes);

} // namespace gossamer

#endif
