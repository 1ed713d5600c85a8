// The operators.
//
// gossamer::coo_to_csr(rows, cols, num_rows, num_cols)
//     -> (offsets, neighbors, edge_ids)
//   Edges sorted by row, in the order of their ids within a row. int32 where
//   every size fits, else int64.
//
// gossamer::max_degree(offsets) -> int
//   Most edges of any row.
//
// gossamer::hold_graph(arrays, sizes) -> graph
//   A graph argument, as a tensor of this process (HeldGraph.h).
//   arrays   in-offsets, in-neighbors, in-edge-ids, out-offsets,
//            out-neighbors, out-edge-ids; empty where program_info says they
//            are not read
//   sizes    sources, destinations, edges, largest in-degree, largest
//            out-degree
//
// gossamer::run(program, graphs, inputs) -> outputs
//   program  the bytes of a saved program, uint8
//   graphs   each graph argument, from hold_graph
//   inputs   what program_info says is not read may be any tensor
//
// gossamer::run_traced(program, results, graph, inputs) -> outputs
//   The same inside graphs that torch's compilers make, which carry plain
//   tensors from call to call, and no numbers: `graph` has all six arrays of
//   each graph argument, sizes are their lengths, and largest degrees are found
//   anew.
//   `results` is what program_results says: shapes are known from it without
//   the program.
//
// gossamer::program_results(program) -> int[]
//   For each output: DType, RowSet and graph as numbered in Program.h, the
//   number of feature axes, and their sizes.
//
// gossamer::program_info(program) -> int[]
//   1 if the index arrays are int64, else 0; the number of graph arguments, and
//   for each 1 if in-edges are read, 1 if out-edges are read; then for each
//   input 1 if it is read
//
// gossamer::tune(program, graphs, inputs) -> int[]
//   Measures which variant is the fastest on these graphs, and how its kernels
//   best go over them, for the runs on graphs of the same shape class that
//   follow (Tuning.h). The number of the variant; then for each of its kernels
//   what `schedules` returns.
//
// gossamer::keep_tuned(program, sizes, way)
//   Runs on graphs of the shape class of these sizes go the way that `tune` of
//   the same program returned, in another process perhaps.
//
// gossamer::cache_sizes() -> int[]
//   Bytes of the second level and of the last level of this machine's caches.
//
// gossamer::schedules(program, sizes) -> int[]
//   How each kernel goes over graphs of these sizes: edges that it prefetches
//   ahead, 1 if its results go past the caches, and how many edges of a row are
//   one piece (Schedule.h).
//
// gossamer::force_schedule(prefetch, stream, piece_edges)
//   What all kernels do from now on, whatever they would choose; None leaves
//   the choice to them.
//
// gossamer::variant(program, sizes) -> int[]
//   The number of the variant that runs on graphs of these sizes, and how many
//   there are (Variants.h).
//
// gossamer::force_variant(number)
//   The number that all programs which have such a variant take from now on;
//   None leaves the choice to them.
//
// gossamer::release_memory() -> int
//   Gives the memory that is kept for later calls back to the system; how many
//   bytes it was.

#include "gossamer/program/Serialize.h"
#include "gossamer/runtime/CsrGraph.h"
#include "gossamer/runtime/Variants.h"
#include "gossamer/torch/HeldGraph.h"
#include "gossamer/torch/ProgramCache.h"
#include "gossamer/torch/TorchServices.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <tuple>

namespace gossamer {

using torch::stable::Tensor;

namespace {

/// Never destroyed: tensors may still return memory while the process ends.
ScratchPool &pool() {
  static ScratchPool &scratch = *new ScratchPool;
  return scratch;
}

ProgramCache &programs() {
  static ProgramCache cache;
  return cache;
}

std::span<const uint8_t> bytesOf(const Tensor &program) {
  int32_t dtype;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(program.get(), &dtype));
  if (dtype != aoti_torch_dtype_uint8() || !program.is_cpu() ||
      program.dim() != 1 || !program.is_contiguous())
    raise({ErrorCode::InvalidArgument,
           "program must be a contiguous one-dimensional uint8 CPU tensor"});
  return {static_cast<const uint8_t *>(program.data_ptr()),
          size_t(program.numel())};
}

std::shared_ptr<const Executor> executorOf(const Tensor &program) {
  return check(programs().get(bytesOf(program)));
}

/// An endpoint list, contiguous; `holder` keeps a copy alive if one is needed.
TensorView endpoints(const Tensor &tensor, const char *name, Tensor &holder) {
  TensorView view = check(viewOf(tensor, name));
  if (view.shape.size() != 1 ||
      (view.dtype != DType::I32 && view.dtype != DType::I64))
    raise(makeError(ErrorCode::InvalidArgument, name,
                    " must be a one-dimensional int32 or int64 tensor"));
  if (view.isDense())
    return view;
  holder = torch::stable::contiguous(tensor);
  return check(viewOf(holder, name));
}

std::tuple<Tensor, Tensor, Tensor> cooToCsr(Tensor rows, Tensor cols,
                                            int64_t numRows, int64_t numCols) {
  Tensor rowsHolder, colsHolder;
  TensorView rowView = endpoints(rows, "rows", rowsHolder);
  TensorView colView = endpoints(cols, "cols", colsHolder);
  if (rowView.dtype != colView.dtype || rowView.shape[0] != colView.shape[0])
    raise(makeError(ErrorCode::InvalidArgument, "rows and cols differ: ",
                    rowView.shape[0], " and ", colView.shape[0],
                    " entries, which must be as many and of one dtype"));
  if (numRows < 0 || numCols < 0)
    raise(makeError(ErrorCode::InvalidArgument, "a graph of ", numRows, " by ",
                    numCols, " nodes: sizes must not be negative"));
  int64_t edges = rowView.shape[0];
  DType index =
      needsWideIndex(edges, numRows, numCols) ? DType::I64 : DType::I32;
  auto vectorOf = [&](int64_t length) {
    return emptyTensor(index, {&length, 1});
  };
  Tensor offsets = vectorOf(numRows + 1);
  Tensor neighbors = vectorOf(edges), edgeIds = vectorOf(edges);
  EdgeList list{rowView.data, colView.data, rowView.dtype == DType::I64,
                edges,        numRows,      numCols};
  TorchFor parallel;
  check(buildCsr(list,
                 {offsets.data_ptr(), neighbors.data_ptr(), edgeIds.data_ptr()},
                 parallel, pool()));
  return {offsets, neighbors, edgeIds};
}

int64_t maxDegreeOf(Tensor offsets) {
  Tensor holder;
  TensorView view = endpoints(offsets, "offsets", holder);
  return maxDegree(view.data, view.dtype == DType::I64,
                   std::max<int64_t>(view.shape[0] - 1, 0));
}

/// Graphs of which only the sizes are known.
std::vector<GraphArrays> graphsOfSizes(const Program &program,
                                       const std::vector<int64_t> &sizes) {
  if (sizes.size() != kSizesPerGraph * program.graphs)
    raise(makeError(ErrorCode::InvalidArgument, "program takes ",
                    program.graphs, " graphs, so ",
                    kSizesPerGraph * program.graphs, " sizes; got ",
                    sizes.size()));
  std::vector<GraphArrays> views;
  for (size_t g = 0; g < program.graphs; ++g)
    views.push_back(graphOfSizes(&sizes[kSizesPerGraph * g]));
  return views;
}

std::vector<GraphArrays> heldGraphs(const std::vector<Tensor> &graphs) {
  std::vector<GraphArrays> views;
  views.reserve(graphs.size());
  for (size_t g = 0; g < graphs.size(); ++g)
    views.push_back(heldGraph(graphs[g], g));
  return views;
}

std::vector<GraphArrays> graphArrays(const Program &program,
                                     const std::vector<Tensor> &arrays,
                                     const std::vector<int64_t> &sizes) {
  size_t graphs = program.graphs;
  if (arrays.size() != kArraysPerGraph * graphs)
    raise(makeError(ErrorCode::InvalidArgument, "program takes ", graphs,
                    " graphs, so ", kArraysPerGraph * graphs, " arrays; got ",
                    arrays.size()));
  std::vector<GraphArrays> views = graphsOfSizes(program, sizes);
  for (size_t g = 0; g < graphs; ++g) {
    const Tensor *array = &arrays[kArraysPerGraph * g];
    if (visitsEdges(program, uint32_t(g), VisitBy::Dst))
      views[g].in = edgeArrays(array);
    if (visitsEdges(program, uint32_t(g), VisitBy::Src))
      views[g].out = edgeArrays(array + 3);
  }
  return views;
}

std::vector<TensorView> viewsOf(const std::vector<Tensor> &inputs) {
  std::vector<TensorView> views;
  views.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    views.push_back(check(viewOf(inputs[i], "input " + std::to_string(i))));
  return views;
}

std::vector<Tensor> runOn(const Executor &executor,
                          const std::vector<GraphArrays> &graphs,
                          const std::vector<Tensor> &inputs) {
  std::vector<TensorView> views = viewsOf(inputs);
  TorchFor parallel;
  TorchGemm gemm(pool());
  TensorOutputs outputs(executor.program().outputs.size(), pool());
  check(executor.run(graphs, views, {parallel, gemm, outputs, pool()}));
  return outputs.take();
}

std::vector<Tensor> run(Tensor program, std::vector<Tensor> graphs,
                        std::vector<Tensor> inputs) {
  return runOn(*executorOf(program), heldGraphs(graphs), inputs);
}

std::vector<int64_t> tune(Tensor program, std::vector<Tensor> graphs,
                          std::vector<Tensor> inputs) {
  std::shared_ptr<const Executor> executor = executorOf(program);
  TorchFor parallel;
  TorchGemm gemm(pool());
  TensorOutputs outputs(executor->program().outputs.size(), pool());
  Way way = check(executor->tune(heldGraphs(graphs), viewsOf(inputs),
                                 {parallel, gemm, outputs, pool()}));
  std::vector<int64_t> numbers = {int64_t(way.variant)};
  for (const ScheduleChoices &choice : way.choices)
    numbers.insert(numbers.end(),
                   {*choice.prefetch, *choice.stream, *choice.pieceEdges});
  return numbers;
}

void keepTuned(Tensor program, std::vector<int64_t> sizes,
               std::vector<int64_t> numbers) {
  if (numbers.size() % 3 != 1)
    raise(makeError(ErrorCode::InvalidArgument,
                    "a way is the number of a variant, then three numbers for "
                    "each kernel; got ",
                    numbers.size()));
  std::shared_ptr<const Executor> executor = executorOf(program);
  Way way{size_t(numbers[0]), {}};
  for (size_t i = 1; i < numbers.size(); i += 3)
    way.choices.push_back({numbers[i], numbers[i + 1] != 0, numbers[i + 2]});
  check(executor->keepTuned(graphsOfSizes(executor->program(), sizes), way));
}

std::vector<int64_t> cacheSizesOfMachine() {
  return {cacheSizes().perCore, cacheSizes().shared};
}

std::vector<int64_t> schedules(Tensor program, std::vector<int64_t> sizes) {
  std::shared_ptr<const Executor> executor = executorOf(program);
  std::vector<int64_t> numbers;
  for (const Schedule &schedule :
       executor->schedules(graphsOfSizes(executor->program(), sizes)))
    numbers.insert(numbers.end(),
                   {schedule.prefetch, schedule.stream, schedule.pieceEdges});
  return numbers;
}

void forceScheduleOf(std::optional<int64_t> prefetch,
                     std::optional<bool> stream,
                     std::optional<int64_t> pieceEdges) {
  forceSchedule({prefetch, stream, pieceEdges});
}

std::vector<int64_t> variant(Tensor program, std::vector<int64_t> sizes) {
  std::shared_ptr<const Executor> executor = executorOf(program);
  const Program &source = executor->program();
  return {int64_t(executor->variantOn(graphsOfSizes(source, sizes))),
          int64_t(source.variants.size() + 1)};
}

void forceVariantOf(std::optional<int64_t> number) {
  if (number && (*number < 0 || *number >= int64_t(kMaxVariants)))
    raise(makeError(ErrorCode::InvalidArgument, "variants are numbered 0 to ",
                    kMaxVariants - 1, "; got ", *number));
  forceVariant(number ? std::optional(size_t(*number)) : std::nullopt);
}

/// The length of a one-dimensional index array.
int64_t lengthOf(const Tensor &array, size_t graph, const char *name) {
  if (array.dim() != 1)
    raise(makeError(ErrorCode::InvalidArgument, "graph ", graph, ": ", name,
                    " have ", array.dim(), " axes, expected one"));
  return array.numel();
}

/// Largest degree of the rows that `offsets` of the program's index type
/// states; 0 for another type, which the run refuses.
int64_t largestDegree(const Program &program, const Tensor &offsets) {
  TensorView view = check(viewOf(offsets, "offsets"));
  if (view.dtype != (program.wideIndex ? DType::I64 : DType::I32) ||
      !view.isDense())
    return 0;
  return maxDegree(view.data, program.wideIndex, view.shape[0] - 1);
}

std::vector<int64_t> sizesOf(const Program &program,
                             const std::vector<Tensor> &arrays) {
  std::vector<int64_t> sizes;
  for (size_t g = 0; kArraysPerGraph * (g + 1) <= arrays.size(); ++g) {
    const Tensor *array = &arrays[kArraysPerGraph * g];
    int64_t destinations = lengthOf(array[0], g, "in-offsets") - 1;
    int64_t sources = lengthOf(array[3], g, "out-offsets") - 1;
    if (destinations < 0 || sources < 0)
      raise(makeError(ErrorCode::InvalidArgument, "graph ", g,
                      ": offsets are empty, expected one more than nodes"));
    auto degree = [&](VisitBy by, const Tensor &offsets) {
      return visitsEdges(program, uint32_t(g), by)
                 ? largestDegree(program, offsets)
                 : 0;
    };
    sizes.insert(sizes.end(),
                 {sources, destinations, lengthOf(array[1], g, "in-neighbors"),
                  degree(VisitBy::Dst, array[0]),
                  degree(VisitBy::Src, array[3])});
  }
  return sizes;
}

std::vector<int64_t> resultsOf(const Program &program) {
  std::vector<int64_t> results;
  for (uint32_t id : program.outputs) {
    const ValueInfo &value = program.values[id];
    results.insert(results.end(),
                   {int64_t(value.dtype), int64_t(value.rows), value.graph,
                    int64_t(value.features.size())});
    results.insert(results.end(), value.features.begin(), value.features.end());
  }
  return results;
}

std::vector<Tensor> runTraced(Tensor program, std::vector<int64_t> results,
                              std::vector<Tensor> graph,
                              std::vector<Tensor> inputs) {
  std::shared_ptr<const Executor> executor = executorOf(program);
  if (results != resultsOf(executor->program()))
    raise({ErrorCode::InvalidArgument,
           "results are not those of the program; use program_results"});
  std::vector<int64_t> sizes = sizesOf(executor->program(), graph);
  return runOn(*executor, graphArrays(executor->program(), graph, sizes),
               inputs);
}

std::vector<int64_t> programResults(Tensor program) {
  return resultsOf(executorOf(program)->program());
}

std::vector<int64_t> programInfo(Tensor program) {
  // Asked once, where a program comes in: the moment to look at all of it.
  std::shared_ptr<const Executor> executor =
      check(programs().getChecked(bytesOf(program)));
  const Program &source = executor->program();
  std::vector<int64_t> info = {source.wideIndex, source.graphs};
  for (uint32_t g = 0; g < source.graphs; ++g)
    for (VisitBy by : {VisitBy::Dst, VisitBy::Src})
      info.push_back(visitsEdges(source, g, by));
  for (size_t i = 0; i < source.inputs.size(); ++i)
    info.push_back(executor->readsInput(i));
  return info;
}

int64_t releaseMemory() { return int64_t(pool().trim()); }

// A fragment: Python adds operators to the same namespace.
STABLE_TORCH_LIBRARY_FRAGMENT(gossamer, m) {
  m.def("coo_to_csr(Tensor rows, Tensor cols, SymInt num_rows, SymInt num_cols)"
        " -> (Tensor offsets, Tensor neighbors, Tensor edge_ids)");
  m.def("max_degree(Tensor offsets) -> int");
  m.def("release_memory() -> int");
  m.def("hold_graph(Tensor[] arrays, int[] sizes) -> Tensor");
  m.def("tune(Tensor program, Tensor[] graphs, Tensor[] inputs) -> int[]");
  m.def("keep_tuned(Tensor program, int[] sizes, int[] way) -> ()");
  m.def("cache_sizes() -> int[]");
  m.def("schedules(Tensor program, int[] sizes) -> int[]");
  m.def("force_schedule(int? prefetch, bool? stream, int? piece_edges) -> ()");
  m.def("variant(Tensor program, int[] sizes) -> int[]");
  m.def("force_variant(int? number) -> ()");
  m.def("run(Tensor program, Tensor[] graphs, Tensor[] inputs) -> Tensor[]");
  m.def("run_traced(Tensor program, int[] results, Tensor[] graph,"
        " Tensor[] inputs) -> Tensor[]");
  m.def("program_results(Tensor program) -> int[]");
  m.def("program_info(Tensor program) -> int[]");
}

STABLE_TORCH_LIBRARY_IMPL(gossamer, CPU, m) {
  m.impl("coo_to_csr", TORCH_BOX(&cooToCsr));
  m.impl("max_degree", TORCH_BOX(&maxDegreeOf));
  m.impl("hold_graph", TORCH_BOX(&holdGraph));
  m.impl("run", TORCH_BOX(&run));
  m.impl("run_traced", TORCH_BOX(&runTraced));
  m.impl("tune", TORCH_BOX(&tune));
  m.impl("keep_tuned", TORCH_BOX(&keepTuned));
  m.impl("schedules", TORCH_BOX(&schedules));
  m.impl("variant", TORCH_BOX(&variant));
  m.impl("program_results", TORCH_BOX(&programResults));
  m.impl("program_info", TORCH_BOX(&programInfo));
}

STABLE_TORCH_LIBRARY_IMPL(gossamer, CompositeExplicitAutograd, m) {
  m.impl("release_memory", TORCH_BOX(&releaseMemory));
  m.impl("cache_sizes", TORCH_BOX(&cacheSizesOfMachine));
  m.impl("force_schedule", TORCH_BOX(&forceScheduleOf));
  m.impl("force_variant", TORCH_BOX(&forceVariantOf));
}

} // namespace

} // namespace gossamer
