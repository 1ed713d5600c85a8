#include "gossamer/runtime/ProgramRun.h"

#include "gossamer/program/Validate.h"
#include "gossamer/runtime/IndexCheck.h"
#include "gossamer/runtime/KernelRun.h"
#include "gossamer/runtime/RowSums.h"
#include "gossamer/runtime/StridedCopy.h"

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

/// One run: the memory of each root, while it is alive.
class Run {
public:
  Run(const ProgramRun &ofProgram, const Services &borrowed)
      : call(ofProgram), program(call.program), plan(call.plan),
        graphs(call.graphs), services(borrowed),
        memory(plan.values.size(), nullptr), leases(plan.values.size()) {}

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
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      uint32_t id = program.inputs[i];
      if (!plan.values[id].isRead)
        continue;
      if (call.inputs[i].isDense()) {
        memory[id] = const_cast<void *>(call.inputs[i].data);
        continue;
      }
      if (Status s = leaseFor(id); !s.ok())
        return s;
      copyToDense(memory[id], call.inputs[i].data,
                  elementBytes(call.inputs[i].dtype), call.inputs[i].shape,
                  call.inputs[i].strides, services.parallel);
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
    const KernelStep &kernel = program.steps[step.source].kernel;
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
    Schedule schedule = scheduleOf(
        program, kernel, graphs,
        call.choices.empty() ? ScheduleChoices() : call.choices[step.source]);
    KernelRun run{kernel,
                  call.kernels[step.source],
                  onGraph ? graphs[kernel.graph] : kNoGraph,
                  program.wideIndex,
                  tables,
                  totals,
                  schedule};
    auto start = std::chrono::steady_clock::now();
    Status status = runKernel(run, services.parallel, services.pool);
    if (!call.seconds.empty())
      call.seconds[step.source] += std::chrono::duration<double>(
                                       std::chrono::steady_clock::now() - start)
                                       .count();
    return status;
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
    return checkIndex(program.steps[step.source].checkIndex, index.dtype,
                      dataOf(step.reads[0]), rows(index), services.parallel);
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

  const ProgramRun &call;
  const Program &program;
  const Plan &plan;
  std::span<const GraphArrays> graphs;
  const Services &services;
  std::vector<void *> memory; // by root
  std::vector<ScratchPool::Lease> leases;
};

} // namespace

Status runProgram(const ProgramRun &run, const Services &services) {
  return Run(run, services).run();
}

} // namespace gossamer
