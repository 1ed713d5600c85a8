// What relu masks after a maximum has no first edge.
//
//   before: %g = select %mask, 0, %dy                         (rows of nodes)
//           %e = select (%position == gather %first), gather %g, 0
//   after:  %where = select %mask, none, %first
//           %g = select (%where == none), 0, %dy
//           %e = select (%position == gather %where), gather %dy, 0
//
// `none` is the position that no edge has, so the same edges get the same
// gradient. A maximum is attained at every node with edges, so %first is `none`
// nowhere by itself, and %g has the same rows. Rows of nodes without edges,
// which %g may mask as well, are `none` too.
//
// It pays where the mask would have to be saved: %where is saved alone. And
// edges read %dy as it is, so that %g need not be a table.

#include "gossamer/passes/SavedMasks.h"

#include "gossamer/passes/Formula.h"
#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/SavedRows.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

namespace {
/// Gives the gradient of a node to the first edge that attains its extremum.
struct FirstEdge {
  GatherOp first;    // of its position, to be compared
  GatherOp gradient; // of the node
  TypedAttr none;    // the position that no edge has
};

/// What `outside` masks.
struct Mask {
  Operation *outside;
  Value inside;
};

class Folding {
public:
  Folding(func::FuncOp ofFunction, const DenseSet<Value> &madeFromGradients)
      : builder(ofFunction.getBody().front().getTerminator()),
        backward(madeFromGradients) {}

  /// False when there is no mask that would be saved.
  bool run(FirstEdge edge);

private:
  std::optional<Mask> maskOver(Value gradient) const;
  bool isSaved(Operation *mask) const;
  Term masked(Operation *mask, Term position, TypedAttr none);

  OpBuilder builder;
  const DenseSet<Value> &backward;
};
} // namespace

static bool isZero(Value value) {
  auto fill = value.getDefiningOp<FillOp>();
  return fill && matchPattern(fill.getValueAttr(), m_PosZeroFloat());
}

/// The fill behind the minimum of positions that is `first`.
static TypedAttr noneOf(Value first, Value position) {
  auto reduce = first.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::Min)
    return {};
  auto candidates = reduce.getEdges().getDefiningOp<arith::SelectOp>();
  if (!candidates || candidates.getTrueValue() != position)
    return {};
  auto none = candidates.getFalseValue().getDefiningOp<FillOp>();
  return none ? none.getValueAttr() : TypedAttr();
}

static std::optional<FirstEdge> firstEdgeOf(arith::SelectOp select) {
  auto compare = select.getCondition().getDefiningOp<arith::CmpIOp>();
  auto gradient = select.getTrueValue().getDefiningOp<GatherOp>();
  if (!compare || !gradient || !isZero(select.getFalseValue()) ||
      compare.getPredicate() != arith::CmpIPredicate::eq)
    return std::nullopt;
  auto first = compare.getRhs().getDefiningOp<GatherOp>();
  if (!first || first.getEnd() != gradient.getEnd())
    return std::nullopt;
  TypedAttr none = noneOf(first.getNodes(), compare.getLhs());
  if (!none)
    return std::nullopt;
  return FirstEdge{first, gradient, none};
}

static bool isZeroMask(FillIsolatedOp fill) {
  return matchPattern(fill.getValue(), m_PosZeroFloat());
}

/// What edges read, but for rows of nodes without edges.
static Value readByEdges(GatherOp gather) {
  Value nodes = gather.getNodes();
  while (auto fill = nodes.getDefiningOp<FillIsolatedOp>()) {
    if (fill.getEnd() != gather.getEnd() || !isZeroMask(fill))
      break;
    nodes = fill.getNodes();
  }
  return nodes;
}

std::optional<Mask> Folding::maskOver(Value gradient) const {
  if (auto fill = gradient.getDefiningOp<FillIsolatedOp>();
      fill && isZeroMask(fill))
    return Mask{fill, fill.getNodes()};
  auto select = gradient.getDefiningOp<arith::SelectOp>();
  if (!select || backward.contains(select.getCondition()))
    return std::nullopt;
  if (isZero(select.getTrueValue()))
    return Mask{select, select.getFalseValue()};
  if (isZero(select.getFalseValue()))
    return Mask{select, select.getTrueValue()};
  return std::nullopt;
}

/// True when the mask is made of what the backward does not compute again.
bool Folding::isSaved(Operation *mask) const {
  auto select = dyn_cast<arith::SelectOp>(mask);
  if (!select)
    return false;
  SetVector<Value> reached;
  reached.insert(select.getCondition());
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (isa_and_nonnull<ReduceOp, LinearOp>(op))
      return true;
    if (op)
      reached.insert_range(op->getOperands());
  }
  return false;
}

/// `none` where the mask is.
Term Folding::masked(Operation *mask, Term position, TypedAttr none) {
  if (auto fill = dyn_cast<FillIsolatedOp>(mask))
    return position.with(FillIsolatedOp::create(builder, position.getLoc(),
                                                Value(position).getType(),
                                                fill.getEnd(), position, none));
  auto select = cast<arith::SelectOp>(mask);
  Term condition = position.with(select.getCondition());
  Term nowhere = position.with(FillOp::create(builder, position.getLoc(),
                                              Value(position).getType(), none));
  return isZero(select.getTrueValue())
             ? gossamer::select(condition, nowhere, position)
             : gossamer::select(condition, position, nowhere);
}

/// `gradient` is 0 in rows without edges at `end`.
static void dropMasksOver(Value gradient, End end) {
  for (Operation *user : llvm::make_early_inc_range(gradient.getUsers()))
    if (auto fill = dyn_cast<FillIsolatedOp>(user);
        fill && fill.getEnd() == end && isZeroMask(fill)) {
      dropMasksOver(fill.getResult(), end);
      fill.getResult().replaceAllUsesWith(gradient);
    }
}

bool Folding::run(FirstEdge edge) {
  Value gradient = readByEdges(edge.gradient), inside = gradient;
  SmallVector<Operation *> masks; // the outermost first
  while (std::optional<Mask> mask = maskOver(inside)) {
    masks.push_back(mask->outside);
    inside = mask->inside;
  }
  if (llvm::none_of(masks, [&](Operation *mask) { return isSaved(mask); }))
    return false;
  Location loc = edge.first.getLoc();
  Term where(builder, loc, edge.first.getNodes());
  for (Operation *mask : llvm::reverse(masks))
    where = masked(mask, where, edge.none);
  Term nowhere = where.with(
      FillOp::create(builder, loc, Value(where).getType(), edge.none));
  Term kept = select(where == nowhere, 0.0, where.with(inside));
  edge.gradient.getNodesMutable().assign(inside);
  edge.first.getNodesMutable().assign(where);
  gradient.replaceAllUsesWith(kept);
  for (Operation *mask : masks)
    if (auto isolated = dyn_cast<FillIsolatedOp>(mask))
      dropMasksOver(kept, isolated.getEnd());
  return true;
}

void gossamer::foldMasksIntoPositions(func::FuncOp function,
                                      unsigned gradients) {
  SmallVector<FirstEdge> edges;
  function.walk([&](arith::SelectOp select) {
    if (std::optional<FirstEdge> edge = firstEdgeOf(select))
      edges.push_back(*edge);
  });
  DenseSet<Value> backward = madeFromGradients(function, gradients);
  bool changed = false;
  for (const FirstEdge &edge : edges)
    changed |= Folding(function, backward).run(edge);
  if (!changed)
    return;
  sortTopologically(&function.getBody().front());
  eraseDeadOps(function);
}
