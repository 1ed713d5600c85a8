// Multiply sums of messages, not messages, by a matrix.
//
//   before: %y = mp.linear %m, %W         after: %s = mp.reduce sum dst %m
//           %h = mp.reduce sum dst %y            %h = mp.linear %s, %W
//
// Also mean, and through what is linear around the product: a factor per edge
// goes to the input of the product, the terms of a sum are reduced apart. max
// and min do not commute.
//
// Equal in real arithmetic; reassociates. It pays: N rows are multiplied, not
// E. A product that hoist-before-gather has moved to the nodes is multiplied N
// times either way; it moves behind the reduction when its input is narrower
// than its output, because E rows are gathered, and with `join` also when both
// are as wide: the kernel that reduces then multiplies its rows, and the table
// of products need not be. Before differentiate that does not pay: the gradient
// of the weight would need the sums, which nobody saves.
//
// Sources and destinations of a block, or of a relation of two types, are as
// many as each graph has: of a block of sampled neighbours there are ten times
// as many sources, and a product there costs ten times as much. The side of
// such a product is a choice of the run. The pass notes what the sides cost,
// and the compiler makes variants of the program (Variants.h), with the
// products of some graphs on the side that the widths speak against.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowScale.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

namespace gossamer {
#define GEN_PASS_DEF_COMMUTELINEAR
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Multiplications in the time that one byte of a gathered row takes to arrive:
/// a kernel multiplies at about 10^11 a second, and gathers 2 * 10^10 bytes.
static constexpr int64_t kProductsPerByte = 5;

static Operation *asSum(Value value) {
  Operation *op = value.getDefiningOp();
  bool sum = isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op);
  return sum && value.hasOneUse() ? op : nullptr;
}

static ScaledRows asScaled(Value value) {
  return value.hasOneUse() ? matchScaledRows(value) : ScaledRows();
}

/// The product that gives `value`, but for factors, when nothing else reads it.
static LinearOp onlyProduct(Value value) {
  if (!value.hasOneUse())
    return {};
  if (ScaledRows scaled = matchScaledRows(value))
    return onlyProduct(scaled.getRows());
  return value.getDefiningOp<LinearOp>();
}

namespace {
/// On which side products are.
struct Sides {
  bool join = false;
  SmallVector<int64_t> flipped; // graphs whose choices are made the other way
};

/// Rewrites one reduction.
class Commuting {
public:
  Commuting(ReduceOp op, const Sides &ofProducts)
      : sides(ofProducts), reduce(op), sumRows(rowsOf(op.getNodes())),
        builder(op), loc(op.getLoc()) {}

  /// True when a product can leave the terms `value` of a sum.
  bool gains(Value value) const;
  /// The reduction of the rows `value`.
  Value reduced(Value value);
  /// The gathered products in the terms `value` of a sum whose side depends on
  /// the numbers of rows.
  void findChoices(Value value, SmallVectorImpl<GatherOp> &found) const;
  /// Appends what a choice costs on the side where it will be.
  void addCosts(GatherOp gather, SmallVectorImpl<Attribute> &costs) const;

private:
  LinearOp movableLinear(Value value) const;
  bool isChoice(GatherOp gather) const {
    return rowsOf(gather.getNodes()).getKind() != sumRows.getKind();
  }
  /// `value`, whose product is taken off, without it; scales stay.
  Value withoutProduct(Value value, LinearOp &linear);
  Value plainReduce(Value value);

  const Sides &sides;
  ReduceOp reduce;
  const RowsAttr sumRows;
  OpBuilder builder;
  Location loc;
};
} // namespace

/// The product that gives `value`, when nothing else reads it: on edges, or on
/// nodes and gathered as rows that it is better gathered without.
LinearOp Commuting::movableLinear(Value value) const {
  auto gather = value.getDefiningOp<GatherOp>();
  if (!value.hasOneUse() || !gather)
    return value.hasOneUse() ? value.getDefiningOp<LinearOp>() : LinearOp();
  LinearOp linear = onlyProduct(gather.getNodes());
  if (!linear)
    return {};
  int64_t before = featureSize(linear.getInput().getType());
  int64_t after = featureSize(linear.getType());
  bool leaves = before < after || (sides.join && before == after);
  int64_t graph = rowsOf(value).getGraph();
  if (isChoice(gather) && llvm::is_contained(sides.flipped, graph))
    leaves = !leaves;
  return leaves ? linear : LinearOp();
}

void Commuting::findChoices(Value value,
                            SmallVectorImpl<GatherOp> &found) const {
  if (Operation *sum = asSum(value)) {
    findChoices(sum->getOperand(0), found);
    return findChoices(sum->getOperand(1), found);
  }
  while (ScaledRows scaled = asScaled(value))
    value = scaled.getRows();
  auto gather = value.getDefiningOp<GatherOp>();
  if (gather && value.hasOneUse() && isChoice(gather) &&
      onlyProduct(gather.getNodes()))
    found.push_back(gather);
}

void Commuting::addCosts(GatherOp gather,
                         SmallVectorImpl<Attribute> &costs) const {
  auto add = [&](RowsAttr rows, int64_t perRow) {
    Attribute number =
        IntegerAttr::get(IntegerType::get(gather.getContext(), 64), perRow);
    costs.push_back(ArrayAttr::get(gather.getContext(), {rows, number}));
  };
  LinearOp linear = onlyProduct(gather.getNodes());
  Type input = linear.getInput().getType(), output = linear.getType();
  int64_t width = getElementTypeOrSelf(output).isF64() ? 2 : 1;
  int64_t product = featureSize(input) * featureShape(output).back() * width;
  int64_t before = bytesPerRow(input) * kProductsPerByte;
  int64_t after = bytesPerRow(output) * kProductsPerByte;
  RowsAttr edges = rowsOf(gather.getEdges());
  if (movableLinear(gather.getEdges())) {
    add(sumRows, product);
    return add(edges, before);
  }
  // The products are a table, written and read.
  add(rowsOf(gather.getNodes()), product + 2 * after);
  add(edges, after);
}

bool Commuting::gains(Value value) const {
  if (movableLinear(value))
    return true;
  if (ScaledRows scaled = asScaled(value))
    return gains(scaled.getRows());
  Operation *sum = asSum(value);
  return sum && (gains(sum->getOperand(0)) || gains(sum->getOperand(1)));
}

Value Commuting::plainReduce(Value value) {
  Type type = withRows(value.getType(), rowsOf(reduce.getNodes()));
  auto rows = ReduceOp::create(builder, loc, type, reduce.getKind(),
                               reduce.getEnd(), value);
  setStoredFormat(rows, storedFormat(reduce));
  return rows;
}

/// The input of `linear` with the factors that are around it in `value`.
static Value scaledInput(OpBuilder &builder, Value value, LinearOp linear) {
  if (ScaledRows scaled = matchScaledRows(value))
    return scaled.rescale(builder,
                          scaledInput(builder, scaled.getRows(), linear));
  return linear.getInput();
}

Value Commuting::withoutProduct(Value value, LinearOp &linear) {
  if (ScaledRows scaled = asScaled(value)) {
    Value rows = withoutProduct(scaled.getRows(), linear);
    return rows ? scaled.rescale(builder, rows) : Value();
  }
  linear = movableLinear(value);
  if (!linear)
    return {};
  auto gather = value.getDefiningOp<GatherOp>();
  if (!gather)
    return linear.getInput();
  Value nodes = scaledInput(builder, gather.getNodes(), linear);
  return GatherOp::create(builder, gather.getLoc(),
                          withRows(nodes.getType(), rowsOf(value)),
                          gather.getEnd(), nodes);
}

Value Commuting::reduced(Value value) {
  if (!gains(value))
    return plainReduce(value);
  if (Operation *sum = asSum(value)) {
    IRMapping mapping;
    for (Value term : sum->getOperands())
      mapping.map(term, reduced(term));
    Value result = builder.clone(*sum, mapping)->getResult(0);
    result.setType(mapping.lookup(sum->getOperand(0)).getType());
    return result;
  }
  LinearOp linear;
  Value input = withoutProduct(value, linear);
  if (!input) // a factor around a sum of products
    return plainReduce(value);
  remarkApplied(linear.getLoc(), "commute-linear",
                "multiplies once per node, after the reduction",
                /*reassociates=*/true);
  Value rows = plainReduce(input);
  Type type =
      withLastAxis(rows.getType(), featureShape(linear.getType()).back());
  auto product = LinearOp::create(builder, linear.getLoc(), type, rows,
                                  linear.getWeight());
  setStoredFormat(product, storedFormat(linear));
  return product;
}

static bool isLinearInTerms(ReduceOp reduce) {
  return reduce.getKind() == ReduceKind::Sum ||
         reduce.getKind() == ReduceKind::Mean;
}

namespace {
struct CommuteLinear : gossamer::impl::CommuteLinearBase<CommuteLinear> {
  using CommuteLinearBase::CommuteLinearBase;

  void runOnOperation() override {
    SmallVector<ReduceOp> reduces;
    getOperation().walk([&](ReduceOp reduce) {
      if (isLinearInTerms(reduce))
        reduces.push_back(reduce);
    });
    Sides sides{join, {}};
    if (choices)
      noteChoices(reduces, sides);
    for (ReduceOp reduce : reduces) {
      Commuting commuting(reduce, sides);
      if (!commuting.gains(reduce.getEdges()))
        continue;
      Value result = commuting.reduced(reduce.getEdges());
      reduce.getNodes().replaceAllUsesWith(result);
      reduce.erase();
    }
    eraseDeadOps(getOperation());
  }

  /// Writes what the choices cost to the function, and how many groups of them
  /// there are: that of the first graph that has some, and that of all others.
  void noteChoices(ArrayRef<ReduceOp> reduces, Sides &sides) {
    SmallVector<std::pair<ReduceOp, GatherOp>> found;
    SmallVector<int64_t> graphs;
    for (ReduceOp reduce : reduces) {
      SmallVector<GatherOp> ofReduce;
      Commuting(reduce, sides).findChoices(reduce.getEdges(), ofReduce);
      for (GatherOp gather : ofReduce) {
        found.push_back({reduce, gather});
        graphs.push_back(rowsOf(gather.getEdges()).getGraph());
      }
    }
    if (found.empty())
      return;
    int64_t first = *llvm::min_element(graphs);
    bool others = llvm::any_of(graphs, [&](int64_t g) { return g != first; });
    llvm::copy_if(graphs, std::back_inserter(sides.flipped),
                  [&](int64_t g) { return flip >> (g == first ? 0 : 1) & 1; });
    SmallVector<Attribute> costs;
    for (auto [reduce, gather] : found) {
      Commuting(reduce, sides).addCosts(gather, costs);
      remarkApplied(gather.getLoc(), "commute-linear",
                    "multiplies before or after the reduction, by the numbers "
                    "of rows of each graph",
                    /*reassociates=*/true);
    }
    Builder builder(&getContext());
    getOperation()->setAttr("mp.costs", builder.getArrayAttr(costs));
    getOperation()->setAttr("mp.choices",
                            builder.getI64IntegerAttr(others ? 2 : 1));
  }
};
} // namespace
