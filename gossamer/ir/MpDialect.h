#ifndef GOSSAMER_IR_MPDIALECT_H
#define GOSSAMER_IR_MPDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "gossamer/ir/MpDialect.h.inc"
#include "gossamer/ir/MpEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "gossamer/ir/MpAttrs.h.inc"
#define GET_OP_CLASSES
#include "gossamer/ir/MpOps.h.inc"

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

/// The table type with the rows of `rows` and the features of `type`.
mlir::RankedTensorType withRows(mlir::Type type, RowsAttr rows);

/// The node rows at `end` of the edges described by `edges`, following the
/// kind (`node`, or src/dst) of `nodes` when that is given.
RowsAttr nodeRows(RowsAttr edges, End end, bool homogeneous);

} // namespace gossamer::mp

#endif
