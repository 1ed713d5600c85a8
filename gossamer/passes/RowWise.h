// The same computation on other rows.
//
// A row-wise op (mp::isRowWise) does the same on every row set, so it can be
// computed on nodes instead of edges when all it reads is known there, or once
// when what it reads has no rows.
#ifndef GOSSAMER_PASSES_ROWWISE_H
#define GOSSAMER_PASSES_ROWWISE_H

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <optional>

namespace gossamer {

/// Clones a row-wise op, operands mapped by `mapping`, with a result that has
/// `rows` (null for none). Axis numbers follow the number of row axes.
mlir::Operation *cloneOnRows(mlir::OpBuilder &builder, mlir::Operation *op,
                             const mlir::IRMapping &mapping, mp::RowsAttr rows);

/// Whether an op on nodes stands for one that the user wrote on edges. At a
/// node without edges the user never computed it. Of copies nobody knows.
bool wasOnEdges(mlir::Operation *op);

/// The fewest rows on which the rows of a value are known.
struct Residency {
  /// Null: the same for all rows.
  mp::RowsAttr rows;
  /// When `rows` are nodes and the value is on edges: at which end they are.
  std::optional<mp::End> end;

  bool operator==(const Residency &) const = default;
};

/// Infers residencies and builds the versions of values that live there.
class Residencies {
public:
  /// Where `value` could be computed; its own rows when nowhere better.
  Residency of(mlir::Value value);

  /// True when `of(value)` has fewer rows than `value` itself.
  bool isLower(mlir::Value value);

  /// `value`, computed on `rows`, on which it is known: those of its residency,
  /// or the nodes at an end of the edges when it has no rows. Builds before the
  /// insertion point of `builder`, and only once per value and rows.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Value value,
                    mp::RowsAttr rows);

private:
  Residency infer(mlir::Value value);

  llvm::DenseMap<mlir::Value, Residency> inferred;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> built;
};

} // namespace gossamer

#endif
