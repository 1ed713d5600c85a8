// Conversions of 16-bit floats without an instruction, as integer ops on whole
// vectors; LLVM would call a function per lane.
//
//   f32 to bf16   needs avx512bf16; else add half a unit of the last place
//   kept,
//                 ties to even, and shift
//   f32 to f16    need f16c; else move the exponent by the difference of the
//   f16 to f32    biases, with infinities, NaN and denormals apart
//
// bf16 to f32 is a shift on every machine. All round to nearest, ties to even.

#include "gossamer/lowering/Combine.h"
#include "gossamer/lowering/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;

namespace gossamer::lowering {
#define GEN_PASS_DEF_LOWERCONVERSIONS
#include "gossamer/lowering/Passes.h.inc"
} // namespace gossamer::lowering

namespace {

/// Integer arithmetic on as many lanes as `like` has.
struct Bits {
  ImplicitLocOpBuilder b;
  int64_t lanes;

  Bits(Operation *op)
      : b(op->getLoc(), op),
        lanes(lowering::lanesOf(op->getResult(0).getType())) {}

  Type type(unsigned width) {
    return lowering::vectorOf(b.getIntegerType(width), lanes);
  }
  Value number(int64_t value) {
    return lowering::splat(b, type(32), b.getI32IntegerAttr(int32_t(value)));
  }
  Value asBits(Value value, unsigned width) {
    return arith::BitcastOp::create(b, type(width), value);
  }
  Value asFloat(Value value) {
    return arith::BitcastOp::create(
        b, lowering::vectorOf(b.getF32Type(), lanes), value);
  }
  Value plus(Value a, Value c) { return arith::AddIOp::create(b, a, c); }
  Value plus(Value a, int64_t c) { return plus(a, number(c)); }
  Value masked(Value a, int64_t mask) {
    return arith::AndIOp::create(b, a, number(mask));
  }
  Value merged(Value a, Value c) { return arith::OrIOp::create(b, a, c); }
  Value down(Value a, int64_t count) {
    return arith::ShRUIOp::create(b, a, number(count));
  }
  Value up(Value a, int64_t count) {
    return arith::ShLIOp::create(b, a, number(count));
  }
  /// `a` where `value` is above `limit`, else `c`; both are unsigned.
  Value whereAbove(Value value, int64_t limit, Value a, Value c) {
    Value above = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, value,
                                        number(limit));
    return arith::SelectOp::create(b, above, a, c);
  }
  /// The low half of each lane, as floats like `result`.
  Value asHalf(Value value, Type result) {
    Value low = arith::TruncIOp::create(b, type(16), value);
    return arith::BitcastOp::create(b, result, low);
  }
};

} // namespace

static constexpr int64_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;

static Value toBF16(arith::TruncFOp op) {
  Bits i(op);
  Value bits = i.asBits(op.getIn(), 32);
  Value odd = i.masked(i.down(bits, 16), 1);
  Value rounded = i.plus(i.plus(bits, 0x7FFF), odd);
  Value quiet = i.merged(bits, i.number(0x400000));
  Value chosen =
      i.whereAbove(i.masked(bits, kMagnitude), kInfinity, quiet, rounded);
  return i.asHalf(i.down(chosen, 16), op.getType());
}

/// Below 2^-14 an addition rounds at the last bit of a denormal.
static Value toF16(arith::TruncFOp op) {
  constexpr int64_t half = 0x3F000000, bias = 112 << 23;
  Bits i(op);
  Value bits = i.asBits(op.getIn(), 32);
  Value size = i.masked(bits, kMagnitude);
  Value odd = i.masked(i.down(size, 13), 1);
  Value normal = i.down(i.plus(i.plus(size, 0xFFF - bias), odd), 13);
  Value shifted =
      arith::AddFOp::create(i.b, i.asFloat(size), i.asFloat(i.number(half)));
  Value tiny = i.plus(i.asBits(shifted, 32), -half);
  Value result = i.whereAbove(size, 0x387FFFFF, normal, tiny);
  result = i.whereAbove(size, 0x477FEFFF, i.number(0x7C00), result);
  result = i.whereAbove(size, kInfinity, i.number(0x7E00), result);
  Value sign = i.masked(i.down(bits, 16), 0x8000);
  return i.asHalf(i.merged(result, sign), op.getType());
}

static Value fromF16(arith::ExtFOp op) {
  constexpr int64_t bias = 112 << 23, exponent = 0x0F800000;
  Bits i(op);
  Value bits =
      arith::ExtUIOp::create(i.b, i.type(32), i.asBits(op.getIn(), 16));
  Value size = i.up(i.masked(bits, 0x7FFF), 13);
  Value normal = i.plus(size, bias);
  Value least = i.asFloat(i.number(bias + (1 << 23)));
  Value tiny = arith::SubFOp::create(
      i.b, i.asFloat(i.plus(size, bias + (1 << 23))), least);
  Value result = i.whereAbove(size, (1 << 23) - 1, normal, i.asBits(tiny, 32));
  result = i.whereAbove(size, exponent - 1, i.plus(normal, bias), result);
  Value sign = i.up(i.masked(bits, 0x8000), 16);
  return i.asFloat(i.merged(result, sign));
}

namespace {

struct LowerConversions
    : gossamer::lowering::impl::LowerConversionsBase<LowerConversions> {
  using LowerConversionsBase::LowerConversionsBase;

  void runOnOperation() override {
    SmallVector<Operation *> conversions;
    getOperation().walk([&](Operation *op) {
      if (isa<arith::TruncFOp, arith::ExtFOp>(op))
        conversions.push_back(op);
    });
    for (Operation *op : conversions)
      if (Value lowered = lower(op)) {
        op->getResult(0).replaceAllUsesWith(lowered);
        op->erase();
      }
  }

private:
  /// The value of a conversion without an instruction; null for others.
  Value lower(Operation *op) const {
    if (auto narrow = dyn_cast<arith::TruncFOp>(op)) {
      Type to = getElementTypeOrSelf(narrow.getType());
      if (!getElementTypeOrSelf(narrow.getIn().getType()).isF32())
        return {};
      if (to.isBF16() && !hasBf16)
        return toBF16(narrow);
      return to.isF16() && !hasF16 ? toF16(narrow) : Value();
    }
    auto wide = cast<arith::ExtFOp>(op);
    bool isHalf = getElementTypeOrSelf(wide.getIn().getType()).isF16() &&
                  getElementTypeOrSelf(wide.getType()).isF32();
    return isHalf && !hasF16 ? fromF16(wide) : Value();
  }
};

} // namespace
