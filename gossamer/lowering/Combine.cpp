#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

Type lowering::vectorOf(Type element, int64_t lanes) {
  return lanes == 1 ? element : VectorType::get(lanes, element);
}

int64_t lowering::lanesOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

Value lowering::splat(ImplicitLocOpBuilder &b, Type type, TypedAttr value) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, value));
  return arith::ConstantOp::create(b, value);
}

Value lowering::zero(ImplicitLocOpBuilder &b, Type type) {
  return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type)));
}

static TypedAttr identityOf(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                            Type element) {
  bool isMax = kind == mp::ReduceKind::Max;
  bool isMin = kind == mp::ReduceKind::Min;
  if (auto type = dyn_cast<FloatType>(element)) {
    if (isMax || isMin)
      return b.getFloatAttr(
          type, APFloat::getInf(type.getFloatSemantics(), /*Negative=*/isMax));
    return b.getFloatAttr(type, kind == mp::ReduceKind::Prod ? 1.0 : 0.0);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 1)
    return b.getBoolAttr(isMin || kind == mp::ReduceKind::Prod);
  if (isMax || isMin)
    return b.getIntegerAttr(element, isMax ? APInt::getSignedMinValue(width)
                                           : APInt::getSignedMaxValue(width));
  return b.getIntegerAttr(element, kind == mp::ReduceKind::Prod ? 1 : 0);
}

Value lowering::identity(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                         Type type) {
  return splat(b, type, identityOf(b, kind, getElementTypeOrSelf(type)));
}

static Value combineFloats(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                           Value left, Value right) {
  switch (kind) {
  case mp::ReduceKind::Sum:
  case mp::ReduceKind::Mean:
    // A product that is only added becomes one fused multiply-add. Elsewhere
    // it would leave rounding residue in x * w - x * w.
    return arith::AddFOp::create(b, left, right,
                                 arith::FastMathFlags::contract);
  case mp::ReduceKind::Max:
    return arith::MaximumFOp::create(b, left, right);
  case mp::ReduceKind::Min:
    return arith::MinimumFOp::create(b, left, right);
  case mp::ReduceKind::Prod:
    return arith::MulFOp::create(b, left, right);
  }
  llvm_unreachable("all kinds are covered");
}

static Value combineBools(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                          Value left, Value right) {
  if (kind == mp::ReduceKind::Min || kind == mp::ReduceKind::Prod)
    return arith::AndIOp::create(b, left, right);
  return arith::OrIOp::create(b, left, right);
}

Value lowering::combine(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                        Value left, Value right) {
  Type element = getElementTypeOrSelf(left.getType());
  if (isa<FloatType>(element))
    return combineFloats(b, kind, left, right);
  if (element.isInteger(1))
    return combineBools(b, kind, left, right);
  switch (kind) {
  case mp::ReduceKind::Sum:
  case mp::ReduceKind::Mean:
    return arith::AddIOp::create(b, left, right);
  case mp::ReduceKind::Max:
    return arith::MaxSIOp::create(b, left, right);
  case mp::ReduceKind::Min:
    return arith::MinSIOp::create(b, left, right);
  case mp::ReduceKind::Prod:
    return arith::MulIOp::create(b, left, right);
  }
  llvm_unreachable("all kinds are covered");
}

Value lowering::multiply(ImplicitLocOpBuilder &b, Value left, Value right) {
  if (isa<FloatType>(getElementTypeOrSelf(left.getType())))
    return arith::MulFOp::create(b, left, right,
                                 arith::FastMathFlags::contract);
  return arith::MulIOp::create(b, left, right);
}

/// Lanes [first, last) of every `block` lanes of both vectors, in order; of the
/// left one only when it is both.
static Value pickOfBlocks(ImplicitLocOpBuilder &b, Value left, Value right,
                          int64_t block, int64_t first, int64_t last) {
  int64_t lanes = lanesOf(left.getType()) * (left == right ? 1 : 2);
  SmallVector<int64_t> picks;
  for (int64_t start = 0; start < lanes; start += block)
    llvm::append_range(picks, llvm::seq(start + first, start + last));
  return vector::ShuffleOp::create(b, left, right, picks);
}

/// Each step halves what is left of every vector, and puts two vectors that
/// still are one each into one.
Value lowering::combineLanes(ImplicitLocOpBuilder &b, mp::ReduceKind kind,
                             ValueRange vectors) {
  SmallVector<Value> parts(vectors);
  int64_t left = lanesOf(parts.front().getType());
  if (!isa<VectorType>(parts.front().getType())) {
    if (parts.size() == 1)
      return parts.front();
    Type type = vectorOf(parts.front().getType(), parts.size());
    return vector::FromElementsOp::create(b, type, parts);
  }
  while (left > 1 || parts.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i < parts.size(); i += 2) {
      Value l = parts[i], r = parts[std::min(i + 1, parts.size() - 1)];
      if (left == 1) {
        next.push_back(pickOfBlocks(b, l, r, 1, 0, 1));
        continue;
      }
      Value low = pickOfBlocks(b, l, r, left, 0, left / 2);
      Value high = pickOfBlocks(b, l, r, left, left / 2, left);
      next.push_back(combine(b, kind, low, high));
    }
    parts = std::move(next);
    left = std::max<int64_t>(1, left / 2);
  }
  Value all = parts.front();
  if (lanesOf(all.getType()) == 1)
    return vector::ExtractOp::create(b, all, 0);
  return all;
}
