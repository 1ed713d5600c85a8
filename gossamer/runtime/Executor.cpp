#include "gossamer/runtime/Executor.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/HostCpu.h"
#include "gossamer/runtime/IndexCheck.h"
#include "gossamer/runtime/KernelRun.h"
#include "gossamer/runtime/RowSums.h"
#include "gossamer/runtime/StridedCopy.h"
#include "gossamer/runtime/Variants.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>

namespace gossamer {

namespace {

/// A block of a product takes about this many multiplications, and at least so
/// many rows: enough to outweigh packing the weight.
constexpr int64_t kProductsPerBlock = int64_t(1) << 22;
constexpr int64_t kMinRowsPerBlock = 256;

} // namespace

/// One run: the memory of each root, while it is alive.
class Run {
public:
  Run(const Executor &owner, std::span<const GraphArrays> graphArrays,
      std::span<const TensorView> inputViews, const Services &borrowed,
      std::vector<ScheduleChoices> choicesOfSteps)
      : executor(owner), plan(owner.plan), graphs(graphArrays),
        inputs(inputViews), services(borrowed),
        choices(std::move(choicesOfSteps)), memory(plan.values.size(), nullptr),
        leases(plan.values.size()) {}

  /// Where to add the seconds of each kernel, by step of the program.
  void measure(std::span<double> secondsOfSteps) { seconds = secondsOfSteps; }

  Status run() {
    if (Status s = bindInputs(); !s.ok())
      return s;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep &step = plan.steps[i];
      for (uint32_t id : step.writes)
        if (Status s = obtain(id); !s.ok())
          return s;
      if (Status s = perform(step); !s.ok())
        return s;
      for (const auto *ids : {&step.reads, &step.writes})
        for (uint32_t id : *ids)
          release(plan.values[id].place.root, i);
    }
    return {};
  }

private:
  int64_t rows(const ValueInfo &info) const {
    return info.rows == RowSet::None ? 1
                                     : rowCount(info.rows, graphs[info.graph]);
  }

  /// The shape as the caller sees it: the row axis, if any, then features.
  std::vector<int64_t> shape(const ValueInfo &info) const {
    std::vector<int64_t> axes;
    if (info.rows != RowSet::None)
      axes.push_back(rows(info));
    axes.insert(axes.end(), info.features.begin(), info.features.end());
    return axes;
  }

  Result<size_t> bytes(const ValueInfo &info) const {
    int64_t total;
    if (__builtin_mul_overflow(rowElements(info), rows(info), &total) ||
        __builtin_mul_overflow(total, elementBytes(info.dtype), &total) ||
        total > std::numeric_limits<int64_t>::max() / 2)
      return makeError(ErrorCode::InvalidArgument, "a table of ", rows(info),
                       " rows of ", rowElements(info),
                       " elements does not fit in memory");
    return size_t(total);
  }

  Status bindInputs() {
    for (size_t i = 0; i < inputs.size(); ++i) {
      uint32_t id = executor.source.inputs[i];
      if (!plan.values[id].isRead)
        continue;
      if (inputs[i].isDense()) {
        memory[id] = const_cast<void *>(inputs[i].data);
        continue;
      }
      if (Status s = leaseFor(id); !s.ok())
        return s;
      copyToDense(memory[id], inputs[i].data, elementBytes(inputs[i].dtype),
                  inputs[i].shape, inputs[i].strides, services.parallel);
    }
    return {};
  }

  Status leaseFor(uint32_t id) {
    Result<size_t> size = bytes(plan.values[id].info);
    if (!size.ok())
      return size.error();
    leases[id] = services.pool.lease(size.value());
    memory[id] = leases[id].data();
    if (!leases[id])
      return makeError(ErrorCode::OutOfMemory, "no memory for a temporary of ",
                       size.value(), " bytes");
    return {};
  }

  Status obtain(uint32_t id) {
    const Plan::Value &value = plan.values[id];
    if (value.owner != Plan::Owner::Output)
      return leaseFor(id);
    if (Result<size_t> size = bytes(value.info); !size.ok())
      return size.error();
    Result<void *> data = services.allocator.allocate(
        value.position, value.info.dtype, shape(value.info));
    if (!data.ok())
      return data.error();
    memory[id] = data.value();
    return {};
  }

  void release(uint32_t root, size_t step) {
    if (plan.values[root].lastStep == step)
      leases[root].end();
  }

  void *dataOf(uint32_t id) const {
    const Plan::Value &value = plan.values[id];
    char *root = static_cast<char *>(memory[value.place.root]);
    return root + value.place.offset * elementBytes(value.info.dtype);
  }

  Status perform(const PlanStep &step) {
    for (uint32_t id : step.reads)
      if (Status s = checkPrefix(plan.values[id]); !s.ok())
        return s;
    switch (step.kind) {
    case PlanStep::Kind::Kernel:
      return runKernelStep(step);
    case PlanStep::Kind::Gemm:
      return runGemm(step);
    case PlanStep::Kind::Copy:
      return copy(step.reads[0], step.writes[0]);
    case PlanStep::Kind::PadRows:
      padRows(step);
      return {};
    case PlanStep::Kind::SumRows:
      return runSumRows(step);
    case PlanStep::Kind::ContractRows:
      return runContractRows(step);
    case PlanStep::Kind::CheckIndex:
      return runCheckIndex(step);
    }
    return makeError(ErrorCode::Internal, "unknown kind of step");
  }

  /// The rows of a value must exist in its root, which a prefix promises.
  Status checkPrefix(const Plan::Value &value) const {
    const ValueInfo &root = plan.values[value.place.root].info;
    if (rows(value.info) <= rows(root))
      return {};
    return makeError(ErrorCode::InvalidArgument, "a table of ", rows(root),
                     " rows (", rowSetName(root.rows), " of graph ", root.graph,
                     ") stands for ", rows(value.info), " rows (",
                     rowSetName(value.info.rows), " of graph ",
                     value.info.graph, ")");
  }

  Status runKernelStep(const PlanStep &step) {
    const KernelStep &kernel = executor.source.steps[step.source].kernel;
    std::vector<void *> tables;
    for (const auto *ids : {&step.reads, &step.writes})
      for (uint32_t id : *ids)
        tables.push_back(dataOf(id));
    std::vector<TotalTable> totals;
    for (size_t i = 0; i < step.writes.size(); ++i)
      if (const ValueInfo &info = plan.values[step.writes[i]].info;
          isTotal(kernel, info))
        totals.push_back(
            {step.reads.size() + i, info.dtype, rowElements(info)});
    static const GraphArrays kNoGraph;
    bool onGraph = kernel.rows != RowSet::None;
    Schedule schedule = scheduleOf(step.source);
    KernelRun run{kernel,
                  executor.kernels[step.source],
                  onGraph ? graphs[kernel.graph] : kNoGraph,
                  executor.source.wideIndex,
                  tables,
                  totals,
                  schedule};
    auto start = std::chrono::steady_clock::now();
    Status status = runKernel(run, services.parallel, services.pool);
    if (!seconds.empty())
      seconds[step.source] += std::chrono::duration<double>(
                                  std::chrono::steady_clock::now() - start)
                                  .count();
    return status;
  }

  /// Of the kernel that is step `step` of the program.
  Schedule scheduleOf(size_t step) const {
    return executor.scheduleOf(
        step, graphs, choices.empty() ? ScheduleChoices() : choices[step]);
  }

  Status runGemm(const PlanStep &step) {
    const Plan::Value &input = plan.values[step.reads[0]];
    const Plan::Value &weight = plan.values[step.reads[1]];
    const Plan::Value &output = plan.values[step.writes[0]];
    int64_t depth = weight.info.features[0], cols = weight.info.features[1];
    MatrixRows layout = *matrixRows(input);
    int64_t perRow = cols == 0 ? 0 : rowElements(output.info) / cols;
    Matrix out{dataOf(step.writes[0]), perRow * rows(output.info), cols, cols};
    if (out.rows == 0 || cols == 0)
      return {};
    if (depth == 0) {
      std::fill_n(static_cast<char *>(out.data),
                  out.rows * cols * elementBytes(output.info.dtype), char(0));
      return {};
    }
    Matrix a{dataOf(step.reads[0]), out.rows, depth, layout.stride,
             input.place.strides.back()};
    Matrix b{dataOf(step.reads[1]), depth, cols, weight.place.strides[0],
             weight.place.strides[1]};
    return multiplyInBlocks(output.info.dtype, a, b, out);
  }

  Status multiplyInBlocks(DType dtype, const Matrix &a, const Matrix &b,
                          const Matrix &out) {
    int64_t blockRows =
        std::max(kMinRowsPerBlock, kProductsPerBlock / (b.rows * b.cols));
    int64_t blocks = (out.rows + blockRows - 1) / blockRows;
    std::mutex guard;
    Status failure;
    services.parallel.forEach(blocks, [&](int64_t block) {
      int64_t begin = block * blockRows;
      auto part = [&](const Matrix &whole) {
        Matrix rows = whole;
        rows.rows = std::min(blockRows, out.rows - begin);
        rows.data = static_cast<char *>(whole.data) +
                    begin * whole.rowStride * elementBytes(dtype);
        return rows;
      };
      Status status = services.gemm.multiply(dtype, part(a), b, part(out));
      if (status.ok())
        return;
      std::lock_guard lock(guard);
      failure = std::move(status);
    });
    return failure;
  }

  void padRows(const PlanStep &step) {
    const ValueInfo &source = plan.values[step.reads[0]].info;
    const ValueInfo &output = plan.values[step.writes[0]].info;
    size_t row = size_t(rowElements(output) * elementBytes(output.dtype));
    size_t kept = size_t(std::min(rows(source), rows(output)));
    char *out = static_cast<char *>(dataOf(step.writes[0]));
    if (kept > 0 && row > 0)
      std::memcpy(out, dataOf(step.reads[0]), kept * row);
    std::fill_n(out + kept * row, (size_t(rows(output)) - kept) * row, char(0));
  }

  /// A dense table as a matrix whose columns are its last axis.
  Matrix asMatrix(uint32_t id, int64_t cols) const {
    const ValueInfo &info = plan.values[id].info;
    int64_t elements = rowElements(info) * rows(info);
    return {dataOf(id), cols == 0 ? 0 : elements / cols, cols, cols, 1};
  }

  Status runSumRows(const PlanStep &step) {
    const ValueInfo &source = plan.values[step.reads[0]].info;
    Matrix matrix = asMatrix(step.reads[0], rowElements(source));
    return sumRows(source.dtype, matrix, dataOf(step.writes[0]),
                   services.parallel, services.pool);
  }

  Status runContractRows(const PlanStep &step) {
    const ValueInfo &left = plan.values[step.reads[0]].info;
    const ValueInfo &right = plan.values[step.reads[1]].info;
    return contractRows(
        left.dtype, asMatrix(step.reads[0], left.features.back()),
        asMatrix(step.reads[1], right.features.back()), dataOf(step.writes[0]),
        services.gemm, services.parallel, services.pool);
  }

  Status runCheckIndex(const PlanStep &step) {
    const ValueInfo &index = plan.values[step.reads[0]].info;
    return checkIndex(executor.source.steps[step.source].checkIndex,
                      index.dtype, dataOf(step.reads[0]), rows(index),
                      services.parallel);
  }

  Status copy(uint32_t from, uint32_t to) {
    const Plan::Value &source = plan.values[from];
    std::vector<int64_t> strides;
    if (source.info.rows != RowSet::None)
      strides.push_back(source.place.rowStride);
    strides.insert(strides.end(), source.place.strides.begin(),
                   source.place.strides.end());
    copyToDense(dataOf(to), dataOf(from), elementBytes(source.info.dtype),
                shape(source.info), strides, services.parallel);
    return {};
  }

  const Executor &executor;
  const Plan &plan;
  std::span<const GraphArrays> graphs;
  std::span<const TensorView> inputs;
  const Services &services;
  const std::vector<ScheduleChoices> choices; // by step of the program, or none
  std::span<double> seconds;                  // by step, or none
  std::vector<void *> memory;                 // by root
  std::vector<ScratchPool::Lease> leases;
};

Executor::Executor(Program checked, LoadedObject loaded)
    : source(std::move(checked)), object(std::move(loaded)),
      plan(makePlan(source)), kernels(source.steps.size(), nullptr) {}

Result<std::shared_ptr<const Executor>> Executor::create(Program program) {
  if (Status s = validate(program); !s.ok())
    return s.error();
  if (Status s = checkHostCpu(program.cpu); !s.ok())
    return s.error();
  Result<LoadedObject> object = LoadedObject::load(program.code);
  if (!object.ok())
    return object.error();
  std::shared_ptr<Executor> executor(
      new Executor(std::move(program), std::move(object.value())));
  if (Status s = executor->findKernels(); !s.ok())
    return s.error();
  for (const Program &variant : executor->source.variants) {
    auto created = create(variant);
    if (!created.ok())
      return created.error();
    executor->variants.push_back(std::move(created.value()));
  }
  return std::shared_ptr<const Executor>(std::move(executor));
}

Status Executor::findKernels() {
  for (size_t step : kernelSteps()) {
    const std::string &symbol = source.steps[step].kernel.symbol;
    void *address = object.find(symbol);
    if (!address)
      return makeError(ErrorCode::Corrupt,
                       "malformed program: its code has "
                       "no kernel ",
                       symbol);
    kernels[step] = reinterpret_cast<GsKernel>(address);
  }
  return {};
}

bool Executor::readsInput(size_t index) const {
  return plan.values[source.inputs[index]].isRead ||
         std::ranges::any_of(variants, [&](const auto &variant) {
           return variant->readsInput(index);
         });
}

size_t Executor::variantOn(std::span<const GraphArrays> graphs) const {
  return wayOn(graphs).variant;
}

const Executor &Executor::variant(size_t number) const {
  return number == 0 ? *this : *variants[number - 1];
}

Way Executor::wayOn(std::span<const GraphArrays> graphs) const {
  std::optional<Way> measured = tuned.find(graphs);
  size_t number =
      variantFor(source, graphs,
                 measured ? std::optional(measured->variant) : std::nullopt);
  if (measured && measured->variant == number)
    return std::move(*measured);
  return {number, {}};
}

Status Executor::run(std::span<const GraphArrays> graphs,
                     std::span<const TensorView> inputs,
                     const Services &services) const {
  if (Status s = checkCall(source, plan, graphs, inputs); !s.ok())
    return s;
  Way way = wayOn(graphs);
  return Run(variant(way.variant), graphs, inputs, services,
             std::move(way.choices))
      .run();
}

Schedule Executor::scheduleOf(size_t step, std::span<const GraphArrays> graphs,
                              const ScheduleChoices &choices) const {
  Workload work = workloadOf(source, source.steps[step].kernel, graphs);
  return forcedSchedule().over(
      choices.over(chooseSchedule(work, cacheSizes())));
}

std::vector<Schedule>
Executor::schedules(std::span<const GraphArrays> graphs) const {
  Way way = wayOn(graphs);
  const Executor &one = variant(way.variant);
  way.choices.resize(one.source.steps.size());
  std::vector<Schedule> found;
  for (size_t step : one.kernelSteps())
    found.push_back(one.scheduleOf(step, graphs, way.choices[step]));
  return found;
}

std::vector<size_t> Executor::kernelSteps() const {
  std::vector<size_t> found;
  for (size_t step = 0; step < source.steps.size(); ++step)
    if (source.steps[step].kind == Step::Kind::Kernel)
      found.push_back(step);
  return found;
}

Result<std::vector<ScheduleChoices>>
Executor::tuneKernels(std::span<const GraphArrays> graphs,
                      std::span<const TensorView> inputs,
                      const Services &services) const {
  std::vector<int64_t> mostEdges(source.steps.size(), 0);
  for (size_t step : kernelSteps())
    mostEdges[step] =
        workloadOf(source, source.steps[step].kernel, graphs).mostEdges;
  return fastestChoices(mostEdges,
                        [&](const std::vector<ScheduleChoices> &choices,
                            std::span<double> seconds) {
                          Run run(*this, graphs, inputs, services, choices);
                          run.measure(seconds);
                          return run.run();
                        });
}

Result<Way> Executor::tune(std::span<const GraphArrays> graphs,
                           std::span<const TensorView> inputs,
                           const Services &services) const {
  if (Status s = checkCall(source, plan, graphs, inputs); !s.ok())
    return s.error();
  std::vector<Way> ways;
  for (size_t number = 0; number <= variants.size(); ++number) {
    auto choices = variant(number).tuneKernels(graphs, inputs, services);
    if (!choices.ok())
      return choices.error();
    ways.push_back({number, std::move(choices.value())});
  }
  auto fastest = fastestWay(ways.size(), [&](size_t number) {
    return Run(variant(number), graphs, inputs, services, ways[number].choices)
        .run();
  });
  if (!fastest.ok())
    return fastest.error();
  Way byKernels{fastest.value(), {}};
  for (size_t step : variant(byKernels.variant).kernelSteps())
    byKernels.choices.push_back(ways[byKernels.variant].choices[step]);
  if (Status s = keepTuned(graphs, byKernels); !s.ok())
    return s.error();
  return byKernels;
}

Status Executor::keepTuned(std::span<const GraphArrays> graphs,
                           const Way &byKernels) const {
  if (byKernels.variant > variants.size())
    return makeError(ErrorCode::InvalidArgument, "program has ",
                     variants.size() + 1, " variants; got number ",
                     byKernels.variant);
  const Executor &one = variant(byKernels.variant);
  std::vector<size_t> steps = one.kernelSteps();
  if (byKernels.choices.size() != steps.size())
    return makeError(ErrorCode::InvalidArgument, "program has ", steps.size(),
                     " kernels; got choices of ", byKernels.choices.size());
  Way way{byKernels.variant,
          std::vector<ScheduleChoices>(one.source.steps.size())};
  for (size_t kernel = 0; kernel < steps.size(); ++kernel) {
    const ScheduleChoices &choices = byKernels.choices[kernel];
    if (int64_t ahead = choices.prefetch.value_or(0); ahead < 0)
      return makeError(ErrorCode::InvalidArgument, "kernel ", kernel,
                       " cannot prefetch ", ahead, " edges ahead");
    if (int64_t edges = choices.pieceEdges.value_or(kWholeRows); edges < 1)
      return makeError(ErrorCode::InvalidArgument, "kernel ", kernel,
                       " cannot cut rows in pieces of ", edges, " edges");
    way.choices[steps[kernel]] = choices;
  }
  tuned.keep(graphs, std::move(way));
  return {};
}

} // namespace gossamer
