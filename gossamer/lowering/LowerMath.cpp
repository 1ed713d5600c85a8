// What becomes of math ops, by how well it can be done:
//
//   an instruction or a short sequence   abs, sqrt, floor, fma, ... stay for
//   LLVM f32, by polynomials on whole vectors exp, log, tanh, erf everything
//   else                      a call of libm per lane
//
// The polynomials of MLIR are within a few ulp and right for infinities and
// NaN; those for sin and cos lose all digits for large arguments, and there are
// none for f64, hence libm.

#include "gossamer/lowering/Combine.h"
#include "gossamer/lowering/Passes.h"

#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace gossamer;

namespace gossamer::lowering {
#define GEN_PASS_DEF_LOWERMATH
#include "gossamer/lowering/Passes.h.inc"
} // namespace gossamer::lowering

static bool isInstruction(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::FloorOp,
             math::RoundOp, math::RoundEvenOp, math::TruncOp, math::CopySignOp,
             math::FmaOp, math::SqrtOp, math::RsqrtOp, math::CtPopOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::IsNaNOp, math::IsInfOp, math::IsFiniteOp, math::IsNormalOp>(
      op);
}

static bool hasGoodPolynomial(StringRef name) {
  return name == math::ExpOp::getOperationName() ||
         name == math::LogOp::getOperationName() ||
         name == math::TanhOp::getOperationName() ||
         name == math::ErfOp::getOperationName();
}

/// The polynomial for log takes denormal numbers for the least normal one: it
/// gets them scaled up by 2^23.
static void scaleDenormals(math::LogOp log) {
  Type type = log.getType();
  if (!getElementTypeOrSelf(type).isF32())
    return;
  ImplicitLocOpBuilder b(log.getLoc(), log);
  auto number = [&](float value) {
    return lowering::splat(b, type, b.getF32FloatAttr(value));
  };
  Value x = log.getOperand();
  Value tiny =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, number(0x1p-126f));
  Value scaled = arith::MulFOp::create(b, x, number(0x1p23f));
  log.setOperand(arith::SelectOp::create(b, tiny, scaled, x));
  b.setInsertionPointAfter(log);
  Value shift =
      arith::SelectOp::create(b, tiny, number(15.9423847f), number(0.0f));
  auto result = arith::SubFOp::create(b, log, shift);
  log.getResult().replaceAllUsesExcept(result, result);
}

namespace {

/// Without the instruction, fma would be a call per lane; the polynomials do
/// not need its single rounding.
struct SplitFma : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::FmaOp fma,
                                PatternRewriter &rewriter) const override {
    Value product =
        arith::MulFOp::create(rewriter, fma.getLoc(), fma.getA(), fma.getB());
    rewriter.replaceOpWithNewOp<arith::AddFOp>(fma, product, fma.getC());
    return success();
  }
};

struct LowerMath : gossamer::lowering::impl::LowerMathBase<LowerMath> {
  using LowerMathBase::LowerMathBase;

  void runOnOperation() override {
    getOperation().walk(scaleDenormals);
    if (failed(approximate()) || failed(callLibm()))
      signalPassFailure();
  }

private:
  LogicalResult approximate() {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns, hasGoodPolynomial);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    if (!hasFma)
      patterns.add<SplitFma>(&getContext());
    return applyPatternsGreedily(getOperation(), std::move(patterns));
  }

  LogicalResult callLibm() {
    RewritePatternSet patterns(&getContext());
    populateMathToLibmConversionPatterns(patterns);
    ConversionTarget target(getContext());
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    target.addDynamicallyLegalDialect<math::MathDialect>(isInstruction);
    return applyPartialConversion(getOperation(), target, std::move(patterns));
  }
};

} // namespace
