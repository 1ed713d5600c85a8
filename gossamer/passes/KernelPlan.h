// Which kernels a function becomes, before anything is rewritten.
//
// A *table* is a value that exists in memory outside kernels: an argument, the
// result of an op that is no kernel (product on nodes, prefix, view), or a
// *root*: a value that some kernel must write, because the function returns it,
// an op outside reads it, or a kernel reads it at the other end of its edges.
//
// Kernels are told apart by what they visit (rows, and by which end) and by
// level. A kernel of level L reads tables of lower levels only, so kernels of
// one level are independent. Everything that a root is computed from, up to
// tables, is in its kernel: elementwise values that two kernels need are
// computed in both, reductions and products are not: they become roots.
//
// A *total*, a sum over all rows, is what a kernel adds up while it visits
// them. It is complete when the kernel is, so it is a root, and the kernels
// that read it have higher levels.
#ifndef GOSSAMER_PASSES_KERNELPLAN_H
#define GOSSAMER_PASSES_KERNELPLAN_H

#include "gossamer/passes/NodeRows.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include <tuple>

namespace gossamer {

/// What a kernel visits. No rows: parameters.
struct Visit {
  mp::RowsAttr rows;
  mp::End end = mp::End::Dst;

  bool operator==(const Visit &) const = default;
};

struct PlannedKernel {
  Visit visit;
  int64_t level = 0;
  llvm::SetVector<mlir::Value> inputs;     // tables
  llvm::SetVector<mlir::Operation *> body; // operands first
  llvm::SetVector<mlir::Value> outputs;    // roots
};

/// Sums over all rows that a kernel adds up: of rows that are no table, and
/// outer products of rows of edges, or of nodes where place-products says so,
/// unless both are tables. Others are left to a GEMM.
bool isTotal(mlir::Operation *op);

/// Ops that run as they are, between kernels: products of parameters, and those
/// on nodes that place-products left there, sums over all rows of tables,
/// prefixes and their adjoints, and views of tables and totals.
bool isOutsideKernels(mlir::Operation *op);

/// A value that exists outside kernels without a kernel that writes it.
bool isTable(mlir::Value value);

class KernelPlan {
public:
  /// `function` has one block, and no dead ops.
  explicit KernelPlan(mlir::func::FuncOp ofFunction);

  /// In order of level, then of the first output.
  llvm::ArrayRef<PlannedKernel> getKernels() const { return kernels; }

  /// The level from which on `value` can be read as a table.
  int64_t available(mlir::Value value);

private:
  int64_t level(mlir::Value value, Visit visit);
  int64_t levelAsRoot(mlir::Value value, Visit visit);
  int64_t computeLevel(mlir::Operation *op, Visit visit);
  int64_t homeLevel(mlir::Value value);
  llvm::SmallVector<Visit, 2> visitsOf(mlir::Value value) const;
  bool canCompute(mlir::Value value, Visit visit) const;

  void computeLevels();
  void placeRoots();
  PlannedKernel &kernelFor(mlir::Value root);
  bool isScoreOfEarlier(const PlannedKernel &kernel, mlir::Value value);
  void collect(PlannedKernel &kernel, mlir::Value value);
  void collectTable(PlannedKernel &kernel, mlir::Value value);
  void claim(const PlannedKernel &kernel, mlir::Value value);
  bool delayOneKernel();
  void finish();

  using LevelKey = std::tuple<mlir::Value, mp::RowsAttr, unsigned>;

  mlir::func::FuncOp function;
  NodeRows nodeRows;
  llvm::SetVector<mlir::Value> required; // roots whatever the kernels are
  llvm::SetVector<mlir::Value> roots;
  llvm::DenseMap<mlir::Value, int64_t> delayed; // roots above their home level
  llvm::DenseMap<mlir::Value, int64_t> claims;  // level of a kernel that has it
  llvm::DenseMap<LevelKey, int64_t> levels;
  llvm::SmallVector<PlannedKernel> kernels;
};

} // namespace gossamer

#endif
