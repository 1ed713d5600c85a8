// Rewrites that make mp ops fewer: ops that change nothing, ops of one kind in
// a row, and copies of a constant.

#include "gossamer/ir/MpDialect.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer::mp;

//===----------------------------------------------------------------------===//
// Ops that change nothing
//===----------------------------------------------------------------------===//

static OpFoldResult inputIfSameType(Operation *op) {
  Value input = op->getOperand(0);
  return input.getType() == op->getResult(0).getType() ? input : OpFoldResult();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) { return inputIfSameType(*this); }

OpFoldResult ReshapeOp::fold(FoldAdaptor) { return inputIfSameType(*this); }

OpFoldResult SliceOp::fold(FoldAdaptor) { return inputIfSameType(*this); }

/// As many rows as there are: all of them. And those with zeros behind them,
/// without the zeros.
OpFoldResult PrefixOp::fold(FoldAdaptor) {
  auto pad = getRows().getDefiningOp<PadRowsOp>();
  bool isWhole = pad && pad.getRows().getType() == getType();
  return isWhole ? pad.getRows() : inputIfSameType(*this);
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  bool identity = llvm::equal(getPermutation(),
                              llvm::seq<int64_t>(0, getPermutation().size()));
  return identity ? getInput() : OpFoldResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? getInputs().front() : OpFoldResult();
}

/// True for the 0 that a reduction gives where no edge ends; not for -0.
static bool isZero(Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValue().isPosZero();
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getValue().isZero();
}

OpFoldResult FillIsolatedOp::fold(FoldAdaptor) {
  auto reduce = getNodes().getDefiningOp<ReduceOp>();
  bool isZeroThere =
      reduce && reduce.getEnd() == getEnd() && isZero(getValueAttr());
  return isZeroThere ? getNodes() : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Ops in a row
//===----------------------------------------------------------------------===//

namespace {
/// reshape(reshape(x)) is reshape(x). So with the first of the first rows: back
/// at the set where they came from they are all of them, since neither set can
/// then be the smaller one.
template <typename Op> struct TwiceIsOnce : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto inner = op->getOperand(0).template getDefiningOp<Op>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "reads an op of another kind");
    rewriter.replaceOpWithNewOp<Op>(op, op.getType(), inner->getOperand(0));
    return success();
  }
};

/// transpose(transpose(x)) is one transpose.
struct TransposeOfTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "not a transpose of a transpose");
    SmallVector<int64_t> permutation;
    for (int64_t axis : op.getPermutation())
      permutation.push_back(inner.getPermutation()[axis]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getInput(),
                                             permutation);
    return success();
  }
};

/// Of two values for the same nodes, the last one stays.
struct FillIsolatedTwice : OpRewritePattern<FillIsolatedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(FillIsolatedOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getNodes().getDefiningOp<FillIsolatedOp>();
    if (!inner || inner.getEnd() != op.getEnd())
      return rewriter.notifyMatchFailure(op, "not filled twice");
    rewriter.modifyOpInPlace(
        op, [&] { op.getNodesMutable().assign(inner.getNodes()); });
    return success();
  }
};

/// No edge reads what isolated nodes are filled with.
struct GatherOfFillIsolated : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto fill = op.getNodes().getDefiningOp<FillIsolatedOp>();
    if (!fill || fill.getEnd() != op.getEnd())
      return rewriter.notifyMatchFailure(op, "reads filled nodes");
    rewriter.modifyOpInPlace(
        op, [&] { op.getNodesMutable().assign(fill.getNodes()); });
    return success();
  }
};

/// A slice that lies within one part of a concat is a slice of that part.
struct SliceOfConcat : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto concat = op.getInput().getDefiningOp<ConcatOp>();
    if (!concat || concat.getAxis() != op.getAxis())
      return rewriter.notifyMatchFailure(op, "not along a concat");
    int64_t count = op.getType().getDimSize(op.getAxis());
    int64_t first = op.getOffset();
    int64_t last = first + (count - 1) * static_cast<int64_t>(op.getStride());
    for (Value part : concat.getInputs()) {
      int64_t size = cast<ShapedType>(part.getType()).getDimSize(op.getAxis());
      if (0 <= first && last < size) {
        rewriter.replaceOpWithNewOp<SliceOp>(
            op, op.getType(), part, op.getAxis(), first, op.getStride());
        return success();
      }
      first -= size;
      last -= size;
    }
    return rewriter.notifyMatchFailure(op, "reads more than one part");
  }
};

//===----------------------------------------------------------------------===//
// Copies of a constant
//===----------------------------------------------------------------------===//

/// A copy of a fill is a fill.
template <typename Op> struct CopyOfFill : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto fill = op->getOperand(0).template getDefiningOp<FillOp>();
    if (!fill)
      return rewriter.notifyMatchFailure(op, "not a copy of a fill");
    rewriter.replaceOpWithNewOp<FillOp>(op, op.getType(), fill.getValueAttr());
    return success();
  }
};
} // namespace

void GatherOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<CopyOfFill<GatherOp>, GatherOfFillIsolated>(context);
}

void FillIsolatedOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                 MLIRContext *context) {
  patterns.add<FillIsolatedTwice>(context);
}

void PrefixOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<TwiceIsOnce<PrefixOp>>(context);
}

void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<CopyOfFill<BroadcastOp>>(context);
}

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *context) {
  patterns.add<CopyOfFill<ReshapeOp>, TwiceIsOnce<ReshapeOp>>(context);
}

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<CopyOfFill<TransposeOp>, TransposeOfTranspose>(context);
}

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                          MLIRContext *context) {
  patterns.add<CopyOfFill<SliceOp>, SliceOfConcat>(context);
}
