// What one loop nest computes: elementwise ops over leaves in memory, with the
// reshapes, transposes, slices and broadcasts between them turned into index
// arithmetic.
//
// All results of an Expr have one feature shape. Its axes, split further where
// a reshape needs it and merged where no leaf can tell the difference, are the
// dims of the loop nest; a leaf is read at offset + sum(coefficient * index) of
// its row.
#ifndef GOSSAMER_LOWERING_EXPR_H
#define GOSSAMER_LOWERING_EXPR_H

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <variant>

namespace gossamer::lowering {

/// offset + sum over dims of coefficient * index.
struct LinearForm {
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> coefficients;

  bool operator==(const LinearForm &) const = default;
};

struct ExprNode {
  enum class Kind {
    Leaf,      // read from memory at `index`
    Splat,     // the same constant everywhere
    Degree,    // number of edges of the row
    RowId,     // number of the row
    EdgeId,    // number of the edge
    Position,  // `index` itself
    Random,    // the random number of element `index` of the row
    Compute,   // an elementwise op on `operands`
    FillEmpty, // the operand, or a constant in rows without edges
  };
  Kind kind;
  mlir::Value value;
  llvm::SmallVector<unsigned, 3> operands; // earlier nodes
  LinearForm index;
  bool perEdge = false; // differs between the edges of a row

  /// True when the value depends on `index`.
  bool hasIndex() const {
    return kind == Kind::Leaf || kind == Kind::Position || kind == Kind::Random;
  }
};

struct Expr {
  llvm::SmallVector<int64_t, 4> dims;   // sizes, outermost first
  llvm::SmallVector<unsigned, 4> axes;  // axis of the results of each dim
  llvm::SmallVector<ExprNode, 8> nodes; // operands before users
  llvm::SmallVector<unsigned, 2> results;
  llvm::SmallVector<LinearForm, 2> targets; // where each result is stored

  int64_t size() const;
};

/// Where a result goes, in elements of its row in memory.
struct Target {
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> strides; // per axis of the result
};

/// Row-major strides of `shape`.
llvm::SmallVector<int64_t, 4> rowMajor(llvm::ArrayRef<int64_t> shape);

/// True when `gather` reads the row that its kernel is at, not the other end.
bool isOwnRow(mp::GatherOp gather);

/// True when `op` reads its operand in place: no arithmetic, only indices.
bool isView(mlir::Operation *op);

/// Builds the expression of `results`, down to values for which `isLeaf` says
/// true. The results themselves are leaves only if `resultsMayBeLeaves`.
/// Fails with the value that has to be in memory first, when a reshape of it is
/// no index arithmetic. With `mergeAxes` false, dims of different axes stay
/// apart.
std::variant<Expr, mlir::Value>
buildExpr(llvm::ArrayRef<mlir::Value> results, llvm::ArrayRef<Target> targets,
          llvm::function_ref<bool(mlir::Value)> isLeaf, bool resultsMayBeLeaves,
          bool mergeAxes);

} // namespace gossamer::lowering

#endif
