// A compiled region: what it reads, the steps it takes, what it returns, and
// the machine code of its kernels. Immutable once built; knows neither LLVM nor
// torch.
#ifndef GOSSAMER_PROGRAM_PROGRAM_H
#define GOSSAMER_PROGRAM_PROGRAM_H

#include <cstdint>
#include <string>
#include <vector>

namespace gossamer {

/// BF16 and F16 are for storage: steps read and write them, and compute in F32.
enum class DType : uint8_t { F32, F64, I32, I64, Bool, BF16, F16 };

/// Which rows a table has; None is a parameter.
enum class RowSet : uint8_t { None, Src, Dst, Node, Edge };

/// The end of the edges by which a kernel visits a row's edges.
enum class VisitBy : uint8_t { Dst, Src };

struct ValueInfo {
  DType dtype = DType::F32;
  RowSet rows = RowSet::None;
  uint32_t graph = 0;            // index of the graph argument
  std::vector<int64_t> features; // axes after the row axis, or all axes
  std::string name;              // for messages: the user's field, or empty
};

/// Rows [0, n) of `rows` of `graph`, by one generated kernel; row set None is
/// one row. The kernel gets dense tables. Results have the rows of the kernel,
/// or are edge tables of its graph, or have no rows: totals over all rows.
struct KernelStep {
  std::string symbol;
  RowSet rows = RowSet::Node;
  uint32_t graph = 0;
  VisitBy visitBy = VisitBy::Dst;
  bool usesEdges = true;        // false: the graph arrays may be null
  std::vector<uint32_t> inputs; // value ids, in the order of GsKernelCall
  std::vector<uint32_t> outputs;
  int64_t rowWork = 1;               // of a row without edges; an edge is 1
  int64_t scratchBytes = 0;          // per thread
  int64_t scratchBytesPerDegree = 0; // times maxDegree, per thread
  int64_t gatheredBytes = 0; // that an edge reads of rows that lie anywhere
  int64_t phases = 0;        // of a row in pieces (Abi.h); 0: rows stay whole
  int64_t partialBytes = 0;  // that the reductions of a piece take
};

/// output[r, o] = sum_k input[r, k] * weight[k, o]. Leading axes of `input`
/// are flattened into r; `weight` has two axes and no rows. Either may be a
/// view: a transposed weight costs nothing. Sums of BF16 and F16 are F32, and
/// rounded once.
struct GemmStep {
  uint32_t input = 0;
  uint32_t weight = 0;
  uint32_t output = 0;
};

/// A strided view of a table without rows, or of the features of one with
/// rows: shape and strides count elements after the row axis, in the row-major
/// order of the source's own features, whether or not the source is a view
/// itself. A step can so be written from its source's type alone; the runtime
/// composes views of views and copies only where no strides express the result.
struct ViewStep {
  uint32_t source = 0;
  uint32_t output = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

/// The first rows of a table, seen as rows of another set.
struct PrefixStep {
  uint32_t source = 0;
  uint32_t output = 0;
};

/// The first rows of the output are the source's, the others 0.
struct PadRowsStep {
  uint32_t source = 0;
  uint32_t output = 0;
};

/// output[...] = sum over the rows of source[row, ...].
struct SumRowsStep {
  uint32_t source = 0;
  uint32_t output = 0;
};

/// output[k, o] = sum of left[..., k] * right[..., o] over the rows and all
/// feature axes but the last.
struct ContractRowsStep {
  uint32_t left = 0;
  uint32_t right = 0;
  uint32_t output = 0;
};

/// Fails unless each number in `index`, one per row, is that of a row of a
/// table of `count` rows: from 0, or from -`count` when they also count from
/// the end. Steps that follow read such rows.
struct CheckIndexStep {
  uint32_t index = 0;
  int64_t count = 1;
  bool fromEnd = false;
  std::string place; // for messages: the user's line, or empty
  std::string field; // and what the user calls the index, or empty
};

struct Step {
  enum class Kind : uint8_t {
    Kernel,
    Gemm,
    View,
    Prefix,
    PadRows,
    SumRows,
    ContractRows,
    CheckIndex
  } kind = Kind::Kernel;
  KernelStep kernel;
  GemmStep gemm;
  ViewStep view;
  PrefixStep prefix;
  PadRowsStep padRows;
  SumRowsStep sumRows;
  ContractRowsStep contractRows;
  CheckIndexStep checkIndex;
};

/// Work that a program does for each row of a row set, in multiplications.
struct RowCost {
  RowSet rows = RowSet::None;
  uint32_t graph = 0;
  int64_t perRow = 0;

  bool operator==(const RowCost &) const = default;
};

/// Of one program: itself and what is in `Program::variants`.
inline constexpr size_t kMaxVariants = 4;

struct Program {
  std::vector<ValueInfo> values;
  std::vector<uint32_t> inputs;  // value ids, in call order
  std::vector<uint32_t> outputs; // value ids, in return order
  std::vector<Step> steps;
  uint32_t graphs = 1;    // number of graph arguments
  bool wideIndex = false; // int64 graph arrays
  std::string cpu; // what the code needs, comma separated: levels such as
                   // x86-64-v3 and features such as avx2 are checked before
                   // the code is mapped; other words only inform
  std::vector<uint8_t> code; // relocatable object; may be empty
  // Other ways from the same inputs to the same outputs, without variants of
  // their own; a run takes the way that costs least on its graphs.
  std::vector<Program> variants;
  std::vector<RowCost> costs; // of what the variants do another way
};

} // namespace gossamer

#endif
