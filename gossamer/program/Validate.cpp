#include "gossamer/program/Validate.h"

#include <algorithm>

namespace gossamer {

int64_t rowElements(const ValueInfo &value) {
  int64_t elements = 1;
  for (int64_t extent : value.features)
    elements *= extent;
  return elements;
}

bool isTotal(const KernelStep &step, const ValueInfo &result) {
  return step.rows != RowSet::None && result.rows == RowSet::None;
}

bool isStorageOnly(DType dtype) {
  return dtype == DType::BF16 || dtype == DType::F16;
}

DType computedIn(DType dtype) {
  return isStorageOnly(dtype) ? DType::F32 : dtype;
}

int64_t elementBytes(DType dtype) {
  switch (dtype) {
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::Bool:
    return 1;
  case DType::BF16:
  case DType::F16:
    return 2;
  }
  return 0;
}

const char *dtypeName(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "float32";
  case DType::F64:
    return "float64";
  case DType::I32:
    return "int32";
  case DType::I64:
    return "int64";
  case DType::Bool:
    return "bool";
  case DType::BF16:
    return "bfloat16";
  case DType::F16:
    return "float16";
  }
  return "unknown dtype";
}

const char *rowSetName(RowSet rows) {
  switch (rows) {
  case RowSet::None:
    return "no rows";
  case RowSet::Src:
    return "source nodes";
  case RowSet::Dst:
    return "destination nodes";
  case RowSet::Node:
    return "nodes";
  case RowSet::Edge:
    return "edges";
  }
  return "unknown rows";
}

namespace {

/// Bounds every product of extents and strides that the runtime forms.
constexpr int64_t kMaxRowElements = int64_t(1) << 40;
constexpr int64_t kMaxScratchBytes = int64_t(1) << 40;
constexpr int64_t kMaxPhases = int64_t(1) << 20;
constexpr int64_t kMaxGatheredBytes = int64_t(1) << 50;
constexpr int64_t kMaxRowWork = int64_t(1) << 20;

template <typename... Parts> Error malformed(const Parts &...parts) {
  return makeError(ErrorCode::Corrupt, "malformed program: ", parts...);
}

class Validator {
public:
  explicit Validator(const Program &checked)
      : program(checked), defined(checked.values.size(), false) {}

  Status run() {
    if (Status s = checkValues(); !s.ok())
      return s;
    for (uint32_t id : program.inputs)
      if (Status s = define(id); !s.ok())
        return s;
    for (size_t i = 0; i < program.steps.size(); ++i)
      if (Status s = checkStep(program.steps[i]); !s.ok())
        return makeError(s.error().code, s.error().text, " (step ", i, ")");
    return useAll(program.outputs);
  }

private:
  Status checkValues() {
    for (size_t i = 0; i < program.values.size(); ++i) {
      const ValueInfo &value = program.values[i];
      if (value.rows != RowSet::None && value.graph >= program.graphs)
        return malformed("value ", i, " is on graph ", value.graph, " of ",
                         program.graphs);
      int64_t elements = 1;
      for (int64_t extent : value.features) {
        if (extent < 0 || extent > kMaxRowElements)
          return malformed("value ", i, " has an axis of ", extent);
        if (extent > 0 && elements > kMaxRowElements / extent)
          return malformed("value ", i, " has too many elements in a row");
        elements *= extent;
      }
    }
    return {};
  }

  Status define(uint32_t id) {
    if (id >= program.values.size())
      return malformed("value ", id, " does not exist");
    if (defined[id])
      return malformed("value ", id, " is defined twice");
    defined[id] = true;
    return {};
  }

  Status use(uint32_t id) {
    if (id >= program.values.size())
      return malformed("value ", id, " does not exist");
    if (!defined[id])
      return malformed("value ", id, " is used before it is defined");
    return {};
  }

  Status useAll(const std::vector<uint32_t> &ids) {
    for (uint32_t id : ids)
      if (Status s = use(id); !s.ok())
        return s;
    return {};
  }

  Status checkStep(const Step &step) {
    switch (step.kind) {
    case Step::Kind::Kernel:
      return checkKernel(step.kernel);
    case Step::Kind::Gemm:
      return checkGemm(step.gemm);
    case Step::Kind::View:
      return checkView(step.view);
    case Step::Kind::Prefix:
      return checkPrefix(step.prefix.source, step.prefix.output, "prefix");
    case Step::Kind::PadRows:
      return checkPrefix(step.padRows.source, step.padRows.output, "padding");
    case Step::Kind::SumRows:
      return checkSumRows(step.sumRows);
    case Step::Kind::ContractRows:
      return checkContractRows(step.contractRows);
    case Step::Kind::CheckIndex:
      return checkCheckIndex(step.checkIndex);
    }
    return malformed("unknown kind of step");
  }

  Status checkKernel(const KernelStep &step) {
    if (step.symbol.empty())
      return malformed("a kernel has no symbol");
    if (step.rows != RowSet::None && step.graph >= program.graphs)
      return malformed("kernel ", step.symbol, " is on graph ", step.graph,
                       " of ", program.graphs);
    if (step.scratchBytes < 0 || step.scratchBytes > kMaxScratchBytes ||
        step.scratchBytesPerDegree < 0 ||
        step.scratchBytesPerDegree > kMaxScratchBytes)
      return malformed("kernel ", step.symbol, " asks for ", step.scratchBytes,
                       " + ", step.scratchBytesPerDegree,
                       " per degree bytes of scratch");
    if (step.gatheredBytes < 0 || step.gatheredBytes > kMaxGatheredBytes)
      return malformed("kernel ", step.symbol, " states that an edge reads ",
                       step.gatheredBytes, " bytes");
    if (step.phases < 0 || step.phases > kMaxPhases || step.partialBytes < 0 ||
        step.partialBytes > kMaxScratchBytes)
      return malformed("kernel ", step.symbol, " computes pieces of rows in ",
                       step.phases, " phases of ", step.partialBytes, " bytes");
    if (step.rowWork < 1 || step.rowWork > kMaxRowWork)
      return malformed("kernel ", step.symbol, " has rows of work ",
                       step.rowWork);
    RowSet end = step.visitBy == VisitBy::Dst ? RowSet::Dst : RowSet::Src;
    if (step.usesEdges && step.rows != end && step.rows != RowSet::Node)
      return malformed("kernel ", step.symbol, " visits ",
                       rowSetName(step.rows), " by the edges of ",
                       rowSetName(end));
    if (Status s = useAll(step.inputs); !s.ok())
      return s;
    for (uint32_t id : step.outputs) {
      if (Status s = define(id); !s.ok())
        return s;
      if (isTotal(step, program.values[id]) &&
          !isFloat(program.values[id].dtype))
        return malformed("kernel ", step.symbol, " adds up totals of ",
                         dtypeName(program.values[id].dtype));
      if (!writes(step, program.values[id]))
        return malformed("kernel ", step.symbol, " over ",
                         rowSetName(step.rows), " writes a table of ",
                         rowSetName(program.values[id].rows));
    }
    return {};
  }

  static bool writes(const KernelStep &step, const ValueInfo &table) {
    if (isTotal(step, table))
      return true;
    if (step.rows == RowSet::None)
      return table.rows == RowSet::None;
    if (table.graph != step.graph)
      return false;
    return table.rows == step.rows ||
           (table.rows == RowSet::Edge && step.usesEdges);
  }

  Status checkGemm(const GemmStep &step) {
    if (Status s = useAll({step.input, step.weight}); !s.ok())
      return s;
    if (Status s = define(step.output); !s.ok())
      return s;
    const ValueInfo &input = program.values[step.input];
    const ValueInfo &weight = program.values[step.weight];
    const ValueInfo &output = program.values[step.output];
    if (!isFloat(input.dtype) && !isStorageOnly(input.dtype))
      return malformed("gemm of ", dtypeName(input.dtype));
    if (weight.dtype != input.dtype || output.dtype != input.dtype)
      return malformed("gemm of ", dtypeName(input.dtype), " and ",
                       dtypeName(weight.dtype), " into ",
                       dtypeName(output.dtype));
    if (weight.rows != RowSet::None || weight.features.size() != 2)
      return malformed("gemm weight is not a matrix without rows");
    std::vector<int64_t> expected = input.features;
    if (expected.empty() || expected.back() != weight.features[0])
      return malformed("gemm weight has ", weight.features[0],
                       " rows, which is not the last axis of the input");
    expected.back() = weight.features[1];
    if (output.features != expected || !sameRows(output, input))
      return malformed("gemm output does not have the shape of the product");
    return {};
  }

  static bool sameRows(const ValueInfo &a, const ValueInfo &b) {
    return a.rows == b.rows && (a.rows == RowSet::None || a.graph == b.graph);
  }

  Status checkView(const ViewStep &step) {
    if (Status s = use(step.source); !s.ok())
      return s;
    if (Status s = define(step.output); !s.ok())
      return s;
    const ValueInfo &source = program.values[step.source];
    const ValueInfo &output = program.values[step.output];
    if (output.dtype != source.dtype || !sameRows(output, source))
      return malformed("a view changes dtype or rows");
    if (step.strides.size() != output.features.size())
      return malformed("a view of ", output.features.size(), " axes has ",
                       step.strides.size(), " strides");
    if (rowElements(output) == 0)
      return {};
    int64_t elements = rowElements(source), last = step.offset;
    bool inside = step.offset >= 0 && step.offset < elements;
    for (size_t i = 0; inside && i < step.strides.size(); ++i) {
      int64_t extent = output.features[i], stride = step.strides[i];
      inside = stride >= 0 &&
               (extent == 1 || stride <= (elements - 1 - last) / (extent - 1));
      last += inside ? stride * (extent - 1) : 0;
    }
    if (!inside)
      return malformed("a view leaves its source of ", elements, " elements");
    return {};
  }

  /// A prefix, or its inverse.
  Status checkPrefix(uint32_t from, uint32_t to, const char *what) {
    if (Status s = use(from); !s.ok())
      return s;
    if (Status s = define(to); !s.ok())
      return s;
    const ValueInfo &source = program.values[from];
    const ValueInfo &output = program.values[to];
    if (source.rows == RowSet::None || output.rows == RowSet::None)
      return malformed("a ", what, " of a table without rows");
    if (output.dtype != source.dtype || output.features != source.features)
      return malformed("a ", what, " changes dtype or features");
    return {};
  }

  static bool isFloat(DType dtype) {
    return dtype == DType::F32 || dtype == DType::F64;
  }

  Status checkSumRows(const SumRowsStep &step) {
    if (Status s = use(step.source); !s.ok())
      return s;
    if (Status s = define(step.output); !s.ok())
      return s;
    const ValueInfo &source = program.values[step.source];
    const ValueInfo &output = program.values[step.output];
    if (source.rows == RowSet::None || output.rows != RowSet::None)
      return malformed("a sum of rows needs rows, and its result has none");
    if (!isFloat(output.dtype) || output.dtype != computedIn(source.dtype) ||
        output.features != source.features)
      return malformed("a sum of rows changes dtype or features");
    return {};
  }

  Status checkContractRows(const ContractRowsStep &step) {
    if (Status s = useAll({step.left, step.right}); !s.ok())
      return s;
    if (Status s = define(step.output); !s.ok())
      return s;
    const ValueInfo &left = program.values[step.left];
    const ValueInfo &right = program.values[step.right];
    const ValueInfo &output = program.values[step.output];
    if (!isFloat(output.dtype) || right.dtype != left.dtype ||
        output.dtype != computedIn(left.dtype))
      return malformed("a contraction of ", dtypeName(left.dtype), " and ",
                       dtypeName(right.dtype), " into ",
                       dtypeName(output.dtype));
    if (!sameRows(left, right) || output.rows != RowSet::None ||
        left.features.empty() ||
        left.features.size() != right.features.size() ||
        !std::equal(left.features.begin(), left.features.end() - 1,
                    right.features.begin()))
      return malformed("a contraction of tables with unlike rows");
    std::vector<int64_t> expected = {left.features.back(),
                                     right.features.back()};
    if (output.features != expected)
      return malformed("a contraction has not the shape of its factors");
    return {};
  }

  Status checkCheckIndex(const CheckIndexStep &step) {
    if (Status s = use(step.index); !s.ok())
      return s;
    const ValueInfo &index = program.values[step.index];
    if (index.dtype != DType::I32 && index.dtype != DType::I64)
      return malformed("an index of ", dtypeName(index.dtype));
    if (index.rows == RowSet::None || rowElements(index) != 1)
      return malformed("an index has not one number per row");
    if (step.count < 1 || step.count > kMaxRowElements)
      return malformed("an index into ", step.count, " rows");
    return {};
  }

  const Program &program;
  std::vector<bool> defined;
};

} // namespace

namespace {

bool sameTable(const ValueInfo &a, const ValueInfo &b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.graph == b.graph &&
         a.features == b.features;
}

bool sameTables(const Program &a, const std::vector<uint32_t> &idsOfA,
                const Program &b, const std::vector<uint32_t> &idsOfB) {
  return std::equal(idsOfA.begin(), idsOfA.end(), idsOfB.begin(), idsOfB.end(),
                    [&](uint32_t left, uint32_t right) {
                      return sameTable(a.values[left], b.values[right]);
                    });
}

Status checkCosts(const Program &program) {
  for (const RowCost &cost : program.costs)
    if (cost.graph >= program.graphs || cost.perRow < 0)
      return malformed("a row of graph ", cost.graph, " costs ", cost.perRow);
  return {};
}

Status checkVariant(const Program &program, const Program &variant) {
  if (Status s = Validator(variant).run(); !s.ok())
    return s;
  if (!variant.variants.empty())
    return malformed("a variant has variants");
  if (variant.graphs != program.graphs ||
      variant.wideIndex != program.wideIndex ||
      !sameTables(program, program.inputs, variant, variant.inputs) ||
      !sameTables(program, program.outputs, variant, variant.outputs))
    return malformed("a variant has other graphs, inputs or outputs");
  return checkCosts(variant);
}

} // namespace

Status validate(const Program &program) {
  if (Status s = Validator(program).run(); !s.ok())
    return s;
  if (program.variants.size() >= kMaxVariants)
    return malformed(program.variants.size() + 1, " variants, but at most ",
                     kMaxVariants, " are expected");
  for (const Program &variant : program.variants)
    if (Status s = checkVariant(program, variant); !s.ok())
      return s;
  return checkCosts(program);
}

} // namespace gossamer
