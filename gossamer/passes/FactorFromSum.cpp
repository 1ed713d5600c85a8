// Multiply or divide a sum once, not each of its terms.
//
//   before: %a = %p / gather dst %z
//           %h = mp.reduce sum dst (%a * %y)
//   after:  %s = mp.reduce sum dst (%p * %y)
//           %h = fill_isolated dst (%s / %z), 0
//
// A factor or divisor that is the same for all edges of a node leaves the sum
// or mean over those edges: this normalises the weights of a softmax once per
// node; a sign does, too. A sum or mean whose terms are all the same needs no
// edges at all.
//
// Equal in real arithmetic; reassociates. On a node without edges the reduction
// gives 0 while 0 / %z may be NaN, hence fill_isolated. The result may be
// stored in 16 bits where the reduction may; what is left of the reduction may
// be too large for them, and stays f32. It pays when the product has no other
// use; else it is needed per edge anyway, and stays.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

namespace gossamer {
#define GEN_PASS_DEF_FACTORFROMSUM
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

namespace {
/// Takes factors out of the operand of one reduction.
class Factoring {
public:
  explicit Factoring(ReduceOp op) : reduce(op), builder(op), loc(op.getLoc()) {}

  /// Takes out one factor, or replaces a reduction of equal rows. Returns the
  /// reduction of the rest, null when there is none.
  FailureOr<ReduceOp> run();

private:
  bool isConstantPerNode(Value value);
  Value onNodes(Value value);
  Value peel(Value value);
  Value peelOperand(Operation *op, unsigned index);
  Value scaleByDegree(Value rows);
  ReduceOp reduced(Value terms);
  void finish(Value nodes);

  ReduceOp reduce;
  OpBuilder builder;
  Location loc;
  Residencies residencies;
  /// What `peel` took out, on nodes, and whether it divides.
  Value factor;
  bool divides = false;
};
} // namespace

bool Factoring::isConstantPerNode(Value value) {
  Residency home = residencies.of(value);
  return !home.rows ||
         home == Residency{rowsOf(reduce.getNodes()), reduce.getEnd()};
}

Value Factoring::onNodes(Value value) {
  return residencies.build(builder, value, rowsOf(reduce.getNodes()));
}

/// Peels the operand `index` of `op`, whose other operands keep their places.
Value Factoring::peelOperand(Operation *op, unsigned index) {
  Value rest = peel(op->getOperand(index));
  if (!rest)
    return {};
  IRMapping mapping;
  mapping.map(op->getOperand(index), rest);
  Operation *clone = builder.clone(*op, mapping);
  if (isa<BroadcastOp, ReshapeOp>(op)) {
    mapping.map(op->getOperand(0), factor);
    factor = cloneOnRows(builder, op, mapping, rowsOf(reduce.getNodes()))
                 ->getResult(0);
  }
  return clone->getResult(0);
}

/// `value` without one of its factors, which is left in `factor`; null when it
/// has none that is constant per node.
Value Factoring::peel(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse())
    return {};
  if (isa<BroadcastOp, ReshapeOp>(op) && onEdges(op->getOperand(0).getType()))
    return peelOperand(op, 0);
  if (!isa<arith::MulFOp, arith::DivFOp>(op))
    return {};
  if (isConstantPerNode(op->getOperand(1))) {
    factor = onNodes(op->getOperand(1));
    divides = isa<arith::DivFOp>(op);
    return op->getOperand(0);
  }
  if (Value rest = peelOperand(op, 0))
    return rest;
  if (isa<arith::DivFOp>(op))
    return {};
  if (isConstantPerNode(op->getOperand(0))) {
    factor = onNodes(op->getOperand(0));
    return op->getOperand(1);
  }
  return peelOperand(op, 1);
}

/// `rows` times the number of edges of each row.
Value Factoring::scaleByDegree(Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  auto scalar = RankedTensorType::get({ShapedType::kDynamic},
                                      builder.getI64Type(), type.getEncoding());
  Value degree = DegreeOp::create(builder, loc, scalar, reduce.getEnd());
  degree = arith::SIToFPOp::create(builder, loc,
                                   scalar.clone(type.getElementType()), degree);
  SmallVector<int64_t> ones(type.getRank(), 1);
  ones.front() = ShapedType::kDynamic;
  degree = ReshapeOp::create(builder, loc, type.clone(ones), degree);
  degree = BroadcastOp::create(builder, loc, type, degree);
  return arith::MulFOp::create(builder, loc, rows, degree);
}

ReduceOp Factoring::reduced(Value terms) {
  return ReduceOp::create(builder, loc, reduce.getType(), reduce.getKind(),
                          reduce.getEnd(), terms);
}

void Factoring::finish(Value nodes) {
  auto zero = builder.getFloatAttr(getElementTypeOrSelf(nodes.getType()), 0.0);
  Value filled = FillIsolatedOp::create(builder, loc, nodes.getType(),
                                        reduce.getEnd(), nodes, zero);
  setStoredFormat(filled.getDefiningOp(), storedFormat(reduce));
  reduce.getNodes().replaceAllUsesWith(filled);
}

FailureOr<ReduceOp> Factoring::run() {
  Value edges = reduce.getEdges();
  bool sums = reduce.getKind() == ReduceKind::Sum;
  if (isConstantPerNode(edges)) {
    remarkApplied(loc, "factor-from-sum",
                  "needs no edges: their rows are equal",
                  /*reassociates=*/true);
    Value nodes = onNodes(edges);
    finish(sums ? scaleByDegree(nodes) : nodes);
    return ReduceOp();
  }
  if (auto negation = edges.getDefiningOp<arith::NegFOp>();
      negation && edges.hasOneUse()) {
    ReduceOp sum = reduced(negation.getOperand());
    finish(arith::NegFOp::create(builder, loc, sum));
    return sum;
  }
  Value rest = peel(edges);
  if (!rest)
    return failure();
  remarkApplied(loc, "factor-from-sum",
                divides ? "divides once per node, not once per edge"
                        : "multiplies once per node, not once per edge",
                /*reassociates=*/true);
  ReduceOp sum = reduced(rest);
  Value scaled = divides
                     ? arith::DivFOp::create(builder, loc, sum, factor)
                     : Value(arith::MulFOp::create(builder, loc, sum, factor));
  finish(scaled);
  return sum;
}

/// Erases a reduction, and what only it used, up to other reductions.
static void eraseWithTerms(ReduceOp reduce) {
  SmallVector<Operation *> dead = {reduce};
  while (!dead.empty()) {
    Operation *op = dead.pop_back_val();
    SetVector<Operation *> operands;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        operands.insert(def);
    op->erase();
    for (Operation *def : operands)
      if (!isa<ReduceOp>(def) && isOpTriviallyDead(def))
        dead.push_back(def);
  }
}

static bool isLinearInTerms(ReduceOp reduce) {
  return (reduce.getKind() == ReduceKind::Sum ||
          reduce.getKind() == ReduceKind::Mean) &&
         isa<FloatType>(getElementTypeOrSelf(reduce.getType()));
}

namespace {
struct FactorFromSum : gossamer::impl::FactorFromSumBase<FactorFromSum> {
  void runOnOperation() override {
    SmallVector<ReduceOp> worklist;
    getOperation().walk([&](ReduceOp reduce) {
      if (isLinearInTerms(reduce))
        worklist.push_back(reduce);
    });
    for (size_t i = 0; i < worklist.size(); ++i) {
      FailureOr<ReduceOp> rest = Factoring(worklist[i]).run();
      if (failed(rest))
        continue;
      // The old terms go at once: their uses would keep the next factor.
      eraseWithTerms(worklist[i]);
      if (*rest)
        worklist.push_back(*rest);
    }
  }
};
} // namespace
