// Runs a model that export_model.py wrote, on a graph that it has never seen.
//
//   infer MODEL GRAPH OUTPUT
//
// MODEL is an AOTInductor package (.pt2) or a TorchScript file (.pt). GRAPH
// holds src (E,), dst (E,), x (N, F), as torch.jit.save writes a module with
// these attributes. OUTPUT gets the result, for torch.load.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>

#include <fstream>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

namespace {

/// Edges sorted by `rows`: offsets, neighbors, edge ids.
std::vector<at::Tensor> compress(const at::Tensor &rows, const at::Tensor &cols,
                                 int64_t nodes) {
  using Result = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("gossamer::coo_to_csr", "")
                       .typed<Result(const at::Tensor &, const at::Tensor &,
                                     c10::SymInt, c10::SymInt)>();
  auto [offsets, neighbors, edgeIds] = op.call(rows, cols, nodes, nodes);
  return {offsets, neighbors, edgeIds};
}

/// What gossamer.OnTensors lists for (graph, x): in-edges, out-edges, x.
std::vector<at::Tensor> modelInputs(const torch::jit::Module &data) {
  at::Tensor src = data.attr("src").toTensor();
  at::Tensor dst = data.attr("dst").toTensor();
  at::Tensor x = data.attr("x").toTensor();
  std::vector<at::Tensor> inputs = compress(dst, src, x.size(0));
  for (const at::Tensor &array : compress(src, dst, x.size(0)))
    inputs.push_back(array);
  inputs.push_back(x);
  return inputs;
}

at::Tensor infer(const std::string &model,
                 const std::vector<at::Tensor> &inputs) {
  if (model.ends_with(".pt2")) {
    torch::inductor::AOTIModelPackageLoader loader(model);
    return loader.run(inputs).at(0);
  }
  torch::jit::Module module = torch::jit::load(model);
  return module.forward({inputs.begin(), inputs.end()}).toTensor();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: infer MODEL GRAPH OUTPUT\n";
    return 2;
  }
  try {
    torch::NoGradGuard inference;
    at::Tensor result = infer(argv[1], modelInputs(torch::jit::load(argv[2])));
    std::vector<char> bytes = torch::jit::pickle_save(result);
    std::ofstream file(argv[3], std::ios::binary);
    file.write(bytes.data(), std::streamsize(bytes.size()));
    return file.good() ? 0 : 1;
  } catch (const std::exception &failure) {
    std::cerr << failure.what() << "\n";
    return 1;
  }
}
