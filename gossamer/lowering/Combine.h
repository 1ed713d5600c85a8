// How reductions combine values, for scalars and vectors of every dtype.
#ifndef GOSSAMER_LOWERING_COMBINE_H
#define GOSSAMER_LOWERING_COMBINE_H

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace gossamer::lowering {

/// A scalar for one lane, else a vector.
mlir::Type vectorOf(mlir::Type element, int64_t lanes);
int64_t lanesOf(mlir::Type type);

/// `value` in every lane of `type`.
mlir::Value splat(mlir::ImplicitLocOpBuilder &b, mlir::Type type,
                  mlir::TypedAttr value);

/// What combining starts from: 0, 1, -inf, ...
mlir::Value identity(mlir::ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                     mlir::Type type);

mlir::Value zero(mlir::ImplicitLocOpBuilder &b, mlir::Type type);

/// Sums of bools are modulo 2 in no dtype of ours: sum is `or` there, as max.
mlir::Value combine(mlir::ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                    mlir::Value left, mlir::Value right);

/// A product of numbers that may become part of a fused multiply-add.
mlir::Value multiply(mlir::ImplicitLocOpBuilder &b, mlir::Value left,
                     mlir::Value right);

/// All lanes of each vector combined, pairwise: lane i of the result is that of
/// vector i. There are a power of two of them, of one type.
mlir::Value combineLanes(mlir::ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                         mlir::ValueRange vectors);

} // namespace gossamer::lowering

#endif
