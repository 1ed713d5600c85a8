// Spell out softmax over the edges of a node, and along features.
//
//   before: %a = mp.softmax dst %x     after: %m = mp.reduce max dst %x
//                                             %s = %x - gather dst %m
//                                             %p = math.exp %s
//                                             %z = mp.reduce sum dst %p
//                                             %a = %p / gather dst %z
//
// Exact: it is the definition of the op. On a row without edges nothing reads
// the 0 that both reductions give.

#include "gossamer/passes/DecomposeSoftmax.h"
#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace gossamer {
#define GEN_PASS_DEF_DECOMPOSESOFTMAX
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static void decompose(SoftmaxOp softmax, const NodeRows &nodeRows) {
  OpBuilder builder(softmax);
  Location loc = softmax.getLoc();
  Value edges = softmax.getEdges();
  Type type = edges.getType();
  End end = softmax.getEnd();
  Type nodes = withRows(type, nodeRows.at(end, rowsOf(type)));
  auto reduceAndGather = [&](ReduceKind kind, Value rows) -> Value {
    Value reduced = ReduceOp::create(builder, loc, nodes, kind, end, rows);
    return GatherOp::create(builder, loc, type, end, reduced);
  };
  Value shifted = arith::SubFOp::create(
      builder, loc, edges, reduceAndGather(ReduceKind::Max, edges));
  Value exp = math::ExpOp::create(builder, loc, shifted);
  Value weights = arith::DivFOp::create(builder, loc, exp,
                                        reduceAndGather(ReduceKind::Sum, exp));
  softmax.getResult().replaceAllUsesWith(weights);
  softmax.erase();
}

/// The same along a feature axis.
static void decompose(SoftmaxAxisOp softmax) {
  OpBuilder builder(softmax);
  Location loc = softmax.getLoc();
  auto type = cast<RankedTensorType>(softmax.getType());
  int64_t axis = softmax.getAxis();
  SmallVector<int64_t> dropped(type.getShape()), kept(type.getShape());
  dropped.erase(dropped.begin() + axis);
  kept[axis] = 1;
  auto reduceAndRepeat = [&](ReduceKind kind, Value input) -> Value {
    Value reduced = ReduceAxisOp::create(builder, loc, type.clone(dropped),
                                         kind, input, axis);
    Value reshaped = ReshapeOp::create(builder, loc, type.clone(kept), reduced);
    return BroadcastOp::create(builder, loc, type, reshaped);
  };
  Value input = softmax.getInput();
  Value shifted = arith::SubFOp::create(
      builder, loc, input, reduceAndRepeat(ReduceKind::Max, input));
  Value exp = math::ExpOp::create(builder, loc, shifted);
  Value result = arith::DivFOp::create(builder, loc, exp,
                                       reduceAndRepeat(ReduceKind::Sum, exp));
  softmax.getResult().replaceAllUsesWith(result);
  softmax.erase();
}

void gossamer::decomposeSoftmax(func::FuncOp function) {
  NodeRows nodeRows(function);
  function.walk([&](SoftmaxOp softmax) { decompose(softmax, nodeRows); });
  function.walk([](SoftmaxAxisOp softmax) { decompose(softmax); });
}

namespace {
struct DecomposeSoftmax
    : gossamer::impl::DecomposeSoftmaxBase<DecomposeSoftmax> {
  void runOnOperation() override { decomposeSoftmax(getOperation()); }
};
} // namespace
