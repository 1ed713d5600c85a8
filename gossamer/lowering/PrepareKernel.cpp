// Rewrites before planning:
//
//   softmax x            -> exp(x - max) / sum(exp(x - max)), over the edges
//   reduce mean x        -> reduce sum x / max(degree, 1)
//   reduce (concat a, b) -> concat (reduce a), (reduce b)
//   fill_isolated of a reduction with 0 -> the reduction
//
// The third is exact and saves an edge-sized buffer; the fourth holds because a
// reduction over no edges is 0.

#include "gossamer/lowering/PrepareKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace gossamer;

static RankedTensorType nodeTable(mp::KernelOp kernel, Type edges) {
  return mp::withRows(edges, *kernel.getRows());
}

static Value expandSoftmax(ImplicitLocOpBuilder &b, mp::KernelOp kernel,
                           mp::SoftmaxOp softmax) {
  auto edges = cast<RankedTensorType>(softmax.getType());
  RankedTensorType nodes = nodeTable(kernel, edges);
  mp::End end = softmax.getEnd();
  Value x = softmax.getEdges();
  Value max = mp::ReduceOp::create(b, nodes, mp::ReduceKind::Max, end, x);
  Value centre = mp::GatherOp::create(b, edges, end, max);
  Value e = math::ExpOp::create(b, arith::SubFOp::create(b, x, centre));
  Value sum = mp::ReduceOp::create(b, nodes, mp::ReduceKind::Sum, end, e);
  Value norm = mp::GatherOp::create(b, edges, end, sum);
  return arith::DivFOp::create(b, e, norm);
}

static Value expandMean(ImplicitLocOpBuilder &b, mp::KernelOp kernel,
                        mp::ReduceOp mean) {
  auto nodes = cast<RankedTensorType>(mean.getType());
  auto element = nodes.getElementType();
  RankedTensorType one = RankedTensorType::get(
      {ShapedType::kDynamic}, b.getI64Type(), *kernel.getRows());
  Value sum = mp::ReduceOp::create(b, nodes, mp::ReduceKind::Sum, mean.getEnd(),
                                   mean.getEdges());
  Value degree = mp::DegreeOp::create(b, one, mean.getEnd());
  Value least = mp::FillOp::create(b, one, b.getI64IntegerAttr(1));
  Value count = arith::SIToFPOp::create(
      b, one.clone(element), arith::MaxSIOp::create(b, degree, least));
  SmallVector<int64_t> shape(nodes.getRank(), 1);
  shape.front() = ShapedType::kDynamic;
  count = mp::ReshapeOp::create(
      b, RankedTensorType::get(shape, element, *kernel.getRows()), count);
  return arith::DivFOp::create(b, sum,
                               mp::BroadcastOp::create(b, nodes, count));
}

static Value reduceParts(ImplicitLocOpBuilder &b, mp::KernelOp kernel,
                         mp::ReduceOp reduce, mp::ConcatOp concat) {
  SmallVector<Value> parts;
  for (Value input : concat.getInputs())
    parts.push_back(mp::ReduceOp::create(b, nodeTable(kernel, input.getType()),
                                         reduce.getKind(), reduce.getEnd(),
                                         input));
  return mp::ConcatOp::create(b, reduce.getType(), parts, concat.getAxis());
}

static bool isZero(TypedAttr value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValue().isPosZero();
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getValue().isZero();
}

/// What `op` becomes, or null when it stays. Parts of a rewrite that need one
/// themselves come later in the block and get their turn.
static Value rewritten(ImplicitLocOpBuilder &b, mp::KernelOp kernel,
                       Operation *op) {
  if (auto softmax = dyn_cast<mp::SoftmaxOp>(op))
    return expandSoftmax(b, kernel, softmax);
  if (auto fill = dyn_cast<mp::FillIsolatedOp>(op)) {
    bool same = fill.getNodes().getDefiningOp<mp::ReduceOp>() &&
                isZero(fill.getValue());
    return same ? fill.getNodes() : Value();
  }
  auto reduce = dyn_cast<mp::ReduceOp>(op);
  if (!reduce)
    return Value();
  if (auto concat = reduce.getEdges().getDefiningOp<mp::ConcatOp>())
    return reduceParts(b, kernel, reduce, concat);
  bool isMean = reduce.getKind() == mp::ReduceKind::Mean;
  return isMean ? expandMean(b, kernel, reduce) : Value();
}

void lowering::prepareKernel(mp::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  for (auto it = body.begin(); it != body.end();) {
    Operation *op = &*it;
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Operation *before = op->getPrevNode();
    Value value = rewritten(b, kernel, op);
    if (!value) {
      ++it;
      continue;
    }
    op->replaceAllUsesWith(ValueRange(value));
    op->erase();
    it = before ? std::next(before->getIterator()) : body.begin();
  }
}
