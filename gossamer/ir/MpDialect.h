#ifndef GOSSAMER_IR_MPDIALECT_H
#define GOSSAMER_IR_MPDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace gossamer::mp {
template <typename Op>
class RowWise : public mlir::OpTrait::TraitBase<Op, RowWise> {};
template <typename Op>
class CopiesOnly : public mlir::OpTrait::TraitBase<Op, CopiesOnly> {};
} // namespace gossamer::mp

// Generated declarations shadow their own members.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "gossamer/ir/MpDialect.h.inc"
#include "gossamer/ir/MpEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "gossamer/ir/MpAttrs.h.inc"
#define GET_OP_CLASSES
#include "gossamer/ir/MpOps.h.inc"
#pragma GCC diagnostic pop

namespace gossamer::mp {

/// The rows of a table, or null when it is the same for every row.
RowsAttr rowsOf(mlir::Type type);
inline RowsAttr rowsOf(mlir::Value value) { return rowsOf(value.getType()); }

/// True when the table has one row per edge.
bool onEdges(mlir::Type type);

/// How many leading axes are rows: 2 for a mailbox, 1 for other tables with
/// rows, 0 for parameters.
int64_t numRowAxes(mlir::Type type);

/// The axes after the row axes; all are static.
llvm::ArrayRef<int64_t> featureShape(mlir::Type type);

/// Number of values in one row.
int64_t featureSize(mlir::Type type);

/// True for tables of bf16 and f16, in which nothing is computed.
bool isStorageOnly(mlir::Type type);

/// The table type with the rows of `rows` and the features of `type`.
mlir::RankedTensorType withRows(mlir::Type type, RowsAttr rows);

/// The node rows at `end` of `edges`: kind `node` when both ends are the same
/// nodes (`homogeneous`), src or dst otherwise.
RowsAttr nodeRows(RowsAttr edges, End end, bool homogeneous);

/// True when row `r` of the one result of `op` depends only on row `r` of its
/// operands, and on operands that are the same for all rows. Over a mailbox,
/// where the messages of a row meet each other, it is false.
bool isRowWise(mlir::Operation *op);

} // namespace gossamer::mp

#endif
