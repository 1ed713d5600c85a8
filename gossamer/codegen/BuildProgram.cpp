#include "gossamer/codegen/BuildProgram.h"

#include "gossamer/codegen/Report.h"
#include "gossamer/ir/MpDialect.h"
#include "gossamer/lowering/Expr.h"
#include "gossamer/lowering/Lowering.h"
#include "gossamer/lowering/Plan.h"
#include "gossamer/program/Validate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::codegen;

namespace {

class ProgramBuilder {
public:
  explicit ProgramBuilder(func::FuncOp source) : function(source) {}

  FailureOr<Program> build();

private:
  FailureOr<uint32_t> define(Value value);
  FailureOr<std::vector<uint32_t>> defineAll(ValueRange values);
  std::vector<uint32_t> idsOf(ValueRange values) const;
  void addCosts(ArrayAttr costs);
  LogicalResult addStep(Operation *op);
  void addIndexChecks(mp::KernelOp kernel);
  void addIndexCheck(uint32_t index, const lowering::Numbering &by,
                     Operation *reader);
  LogicalResult addKernel(mp::KernelOp kernel);
  LogicalResult addGemm(mp::LinearOp linear);
  LogicalResult addPrefix(mp::PrefixOp prefix);
  LogicalResult addPadRows(mp::PadRowsOp pad);
  LogicalResult addSumRows(mp::SumRowsOp sum);
  LogicalResult addContractRows(mp::ContractRowsOp contract);
  LogicalResult addView(Operation *op, int64_t offset,
                        ArrayRef<int64_t> strides);
  LogicalResult addSlice(mp::SliceOp slice);
  LogicalResult addTranspose(mp::TransposeOp transpose);
  LogicalResult addBroadcast(mp::BroadcastOp broadcast);

  func::FuncOp function;
  Program program;
  DenseMap<Value, uint32_t> ids;
  /// Index, rows of the table, and whether numbers count from the end, of the
  /// checks that are steps already.
  DenseSet<std::tuple<uint32_t, int64_t, unsigned>> checked;
};

} // namespace

static std::optional<DType> dtypeOf(Type element) {
  if (element.isF32())
    return DType::F32;
  if (element.isF64())
    return DType::F64;
  if (element.isSignlessInteger(32))
    return DType::I32;
  if (element.isSignlessInteger(64))
    return DType::I64;
  if (element.isSignlessInteger(1))
    return DType::Bool;
  if (element.isBF16())
    return DType::BF16;
  if (element.isF16())
    return DType::F16;
  return std::nullopt;
}

static std::optional<RowSet> rowSetOf(mp::RowsAttr rows) {
  if (!rows)
    return RowSet::None;
  switch (rows.getKind()) {
  case mp::RowKind::Src:
    return RowSet::Src;
  case mp::RowKind::Dst:
    return RowSet::Dst;
  case mp::RowKind::Node:
    return RowSet::Node;
  case mp::RowKind::Edge:
    return RowSet::Edge;
  case mp::RowKind::Mailbox:
    return std::nullopt;
  }
  return std::nullopt;
}

FailureOr<uint32_t> ProgramBuilder::define(Value value) {
  auto table = dyn_cast<RankedTensorType>(value.getType());
  std::optional<DType> dtype =
      table ? dtypeOf(table.getElementType()) : std::nullopt;
  std::optional<RowSet> rows =
      table ? rowSetOf(mp::rowsOf(table)) : std::nullopt;
  if (!dtype || !rows)
    return emitError(value.getLoc(), "a program has no table of type ")
           << value.getType()
           << "; tables are float32, float64, bfloat16, float16, int32, int64 "
              "or bool, with rows "
              "of nodes or edges";
  ValueInfo info;
  info.dtype = *dtype;
  info.rows = *rows;
  if (mp::RowsAttr attr = mp::rowsOf(table))
    info.graph = attr.getGraph();
  info.features = mp::featureShape(table).vec();
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (auto name = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), "mp.name"))
      info.name = name.str();
  uint32_t id = program.values.size();
  program.values.push_back(std::move(info));
  ids[value] = id;
  return id;
}

FailureOr<std::vector<uint32_t>> ProgramBuilder::defineAll(ValueRange values) {
  std::vector<uint32_t> result;
  for (Value value : values) {
    FailureOr<uint32_t> id = define(value);
    if (failed(id))
      return failure();
    result.push_back(*id);
  }
  return result;
}

std::vector<uint32_t> ProgramBuilder::idsOf(ValueRange values) const {
  std::vector<uint32_t> result;
  for (Value value : values)
    result.push_back(ids.at(value));
  return result;
}

/// The user's line that `location` speaks of, or nothing.
static std::string placeOf(Location location) {
  FileLineColLoc line = userLocation(location);
  if (!line)
    return {};
  return line.getFilename().str() + ":" + std::to_string(line.getLine());
}

void ProgramBuilder::addIndexCheck(uint32_t index,
                                   const lowering::Numbering &by,
                                   Operation *reader) {
  if (!checked.insert({index, by.count, by.fromEnd}).second)
    return;
  auto field = reader->getAttrOfType<StringAttr>("field");
  Step step;
  step.kind = Step::Kind::CheckIndex;
  step.checkIndex = {index, by.count, by.fromEnd, placeOf(reader->getLoc()),
                     field ? field.str() : std::string()};
  program.steps.push_back(std::move(step));
}

/// Whatever the kernel reads by number is checked first.
void ProgramBuilder::addIndexChecks(mp::KernelOp kernel) {
  for (Operation &op : kernel.getBody().front()) {
    if (!isa<mp::LookupOp, mp::SumByOp>(op))
      continue;
    lowering::Numbering by = lowering::numberingOf(&op);
    unsigned input = cast<BlockArgument>(by.index).getArgNumber();
    addIndexCheck(ids.at(kernel.getInputs()[input]), by, &op);
  }
}

LogicalResult ProgramBuilder::addKernel(mp::KernelOp kernel) {
  addIndexChecks(kernel);
  FailureOr<std::vector<uint32_t>> outputs = defineAll(kernel.getOutputs());
  if (failed(outputs))
    return failure();
  lowering::KernelInfo info = lowering::kernelInfo(kernel);
  Step step;
  step.kind = Step::Kind::Kernel;
  step.kernel.symbol = info.symbol;
  step.kernel.rows = RowSet::None;
  if (std::optional<mp::RowsAttr> rows = kernel.getRows()) {
    step.kernel.rows = *rowSetOf(*rows);
    step.kernel.graph = rows->getGraph();
  }
  step.kernel.visitBy =
      kernel.getEnd() == mp::End::Dst ? VisitBy::Dst : VisitBy::Src;
  step.kernel.usesEdges = info.usesEdges;
  step.kernel.inputs = idsOf(kernel.getInputs());
  step.kernel.outputs = std::move(*outputs);
  step.kernel.rowWork = info.rowWork;
  step.kernel.scratchBytes = info.scratchBytes;
  step.kernel.scratchBytesPerDegree = info.scratchBytesPerDegree;
  step.kernel.gatheredBytes = info.gatheredBytes;
  step.kernel.phases = info.phases;
  step.kernel.partialBytes = info.partialBytes;
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addGemm(mp::LinearOp linear) {
  FailureOr<uint32_t> output = define(linear.getResult());
  if (failed(output))
    return failure();
  if (!isa<FloatType>(getElementTypeOrSelf(linear.getType())))
    return linear.emitOpError("multiplies tables of ")
           << getElementTypeOrSelf(linear.getType())
           << "; a product of whole tables is of floats";
  Step step;
  step.kind = Step::Kind::Gemm;
  step.gemm = {ids.at(linear.getInput()), ids.at(linear.getWeight()), *output};
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addPrefix(mp::PrefixOp prefix) {
  FailureOr<uint32_t> output = define(prefix.getResult());
  if (failed(output))
    return failure();
  Step step;
  step.kind = Step::Kind::Prefix;
  step.prefix = {ids.at(prefix.getRows()), *output};
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addPadRows(mp::PadRowsOp pad) {
  FailureOr<uint32_t> output = define(pad.getResult());
  if (failed(output))
    return failure();
  Step step;
  step.kind = Step::Kind::PadRows;
  step.padRows = {ids.at(pad.getRows()), *output};
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addSumRows(mp::SumRowsOp sum) {
  FailureOr<uint32_t> output = define(sum.getResult());
  if (failed(output))
    return failure();
  Step step;
  step.kind = Step::Kind::SumRows;
  step.sumRows = {ids.at(sum.getRows()), *output};
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addContractRows(mp::ContractRowsOp contract) {
  FailureOr<uint32_t> output = define(contract.getResult());
  if (failed(output))
    return failure();
  Step step;
  step.kind = Step::Kind::ContractRows;
  step.contractRows = {ids.at(contract.getLeft()), ids.at(contract.getRight()),
                       *output};
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addView(Operation *op, int64_t offset,
                                      ArrayRef<int64_t> strides) {
  FailureOr<uint32_t> output = define(op->getResult(0));
  if (failed(output))
    return failure();
  Step step;
  step.kind = Step::Kind::View;
  step.view = {ids.at(op->getOperand(0)), *output, offset,
               std::vector<int64_t>(strides.begin(), strides.end())};
  program.steps.push_back(std::move(step));
  return success();
}

LogicalResult ProgramBuilder::addSlice(mp::SliceOp slice) {
  auto strides =
      lowering::rowMajor(mp::featureShape(slice.getInput().getType()));
  int64_t axis = slice.getAxis() - mp::numRowAxes(slice.getType());
  int64_t offset = slice.getOffset() * strides[axis];
  strides[axis] *= slice.getStride();
  return addView(slice, offset, strides);
}

LogicalResult ProgramBuilder::addTranspose(mp::TransposeOp transpose) {
  auto strides =
      lowering::rowMajor(mp::featureShape(transpose.getInput().getType()));
  int64_t rowAxes = mp::numRowAxes(transpose.getType());
  SmallVector<int64_t> permuted;
  for (int64_t axis : transpose.getPermutation().drop_front(rowAxes))
    permuted.push_back(strides[axis - rowAxes]);
  return addView(transpose, 0, permuted);
}

LogicalResult ProgramBuilder::addBroadcast(mp::BroadcastOp broadcast) {
  Type from = broadcast.getInput().getType(), to = broadcast.getType();
  if (mp::rowsOf(from) != mp::rowsOf(to))
    return broadcast.emitOpError("repeats a table for every row outside of a "
                                 "kernel");
  ArrayRef<int64_t> have = mp::featureShape(from);
  auto strides = lowering::rowMajor(have);
  for (auto [stride, size, wanted] :
       llvm::zip(strides, have, mp::featureShape(to).take_back(have.size())))
    stride = size == wanted ? stride : 0;
  strides.insert(strides.begin(), mp::featureShape(to).size() - have.size(), 0);
  return addView(broadcast, 0, strides);
}

LogicalResult ProgramBuilder::addStep(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](mp::KernelOp kernel) { return addKernel(kernel); })
      .Case([&](mp::LinearOp linear) { return addGemm(linear); })
      .Case([&](mp::PrefixOp prefix) { return addPrefix(prefix); })
      .Case([&](mp::PadRowsOp pad) { return addPadRows(pad); })
      .Case([&](mp::SumRowsOp sum) { return addSumRows(sum); })
      .Case([&](mp::ContractRowsOp contract) {
        return addContractRows(contract);
      })
      .Case([&](mp::SliceOp slice) { return addSlice(slice); })
      .Case([&](mp::TransposeOp transpose) { return addTranspose(transpose); })
      .Case([&](mp::BroadcastOp broadcast) { return addBroadcast(broadcast); })
      .Case([&](mp::ReshapeOp reshape) {
        return addView(reshape, 0,
                       lowering::rowMajor(mp::featureShape(reshape.getType())));
      })
      .Case([&](func::ReturnOp result) {
        program.outputs = idsOf(result.getOperands());
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError(
            "is no step of a program; form-kernels should have put it into a "
            "kernel");
      });
}

void ProgramBuilder::addCosts(ArrayAttr costs) {
  for (ArrayAttr cost : costs.getAsRange<ArrayAttr>()) {
    auto rows = cast<mp::RowsAttr>(cost[0]);
    program.costs.push_back({*rowSetOf(rows), uint32_t(rows.getGraph()),
                             cast<IntegerAttr>(cost[1]).getInt()});
  }
}

FailureOr<Program> ProgramBuilder::build() {
  if (auto costs = function->getAttrOfType<ArrayAttr>("mp.costs"))
    addCosts(costs);
  if (auto graphs = function->getAttrOfType<IntegerAttr>("mp.graphs"))
    program.graphs = graphs.getInt();
  FailureOr<std::vector<uint32_t>> inputs = defineAll(function.getArguments());
  if (failed(inputs))
    return failure();
  program.inputs = std::move(*inputs);
  for (Operation &op : function.getBody().front())
    if (failed(addStep(&op)))
      return failure();
  return std::move(program);
}

FailureOr<Program> codegen::buildProgram(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expects a body of one block");
  return ProgramBuilder(function).build();
}

std::string codegen::describeBuffers(const Program &program) {
  static constexpr const char *rowNames[] = {"none", "src", "dst", "node",
                                             "edges"};
  llvm::json::Array buffers;
  auto describe = [&](uint32_t id) {
    const ValueInfo &value = program.values[id];
    bool output = llvm::is_contained(program.outputs, id);
    buffers.push_back(
        llvm::json::Object{{"rows", rowNames[static_cast<int>(value.rows)]},
                           {"graph", value.graph},
                           {"shape", llvm::json::Array(value.features)},
                           {"dtype", dtypeName(value.dtype)},
                           {"lifetime", output ? "output" : "temp"}});
  };
  for (const Step &step : program.steps) {
    if (step.kind == Step::Kind::Gemm)
      describe(step.gemm.output);
    if (step.kind == Step::Kind::PadRows)
      describe(step.padRows.output);
    if (step.kind == Step::Kind::SumRows)
      describe(step.sumRows.output);
    if (step.kind == Step::Kind::ContractRows)
      describe(step.contractRows.output);
    for (uint32_t id : step.kernel.outputs)
      describe(id);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(std::move(buffers));
  return text;
}
