// Derivatives of what combines values: over the edges of a node, or along an
// axis. One set of rules for both.

#include "gossamer/passes/RowRules.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

namespace {
/// What mp.reduce and mp.reduce_axis have in common: many terms become one
/// total.
class Combining {
public:
  virtual ~Combining() = default;

  /// The totals, repeated for each of their terms.
  virtual Value spread(Value totals) = 0;
  virtual Value combine(ReduceKind kind, Value terms) = 0;
  /// How many terms each total has, as a table like `totals`.
  virtual Value count(Value totals) = 0;
  /// The number of each term in the order of combination.
  virtual Value positions(Type terms) = 0;
};

class OverEdges : public Combining {
public:
  OverEdges(Adjoint &adjoint, End ofEdges, RowsAttr edgeRows)
      : at(adjoint), end(ofEdges), edges(edgeRows) {}

  Value spread(Value totals) override {
    return GatherOp::create(*at.builder, at.getLoc(),
                            withRows(totals.getType(), edges), end, totals);
  }

  Value combine(ReduceKind kind, Value terms) override {
    Type type = withRows(terms.getType(), at.nodeRows->at(end, edges));
    return ReduceOp::create(*at.builder, at.getLoc(), type, kind, end, terms);
  }

  Value count(Value totals) override {
    RankedTensorType type = tableType(totals);
    auto counts = RankedTensorType::get(
        {ShapedType::kDynamic}, at.builder->getI64Type(), type.getEncoding());
    Value degree = DegreeOp::create(*at.builder, at.getLoc(), counts, end);
    degree = arith::SIToFPOp::create(
        *at.builder, at.getLoc(), counts.clone(type.getElementType()), degree);
    return perRow(degree, type);
  }

  Value positions(Type terms) override {
    unsigned bits = at.wideIndex ? 64 : 32;
    auto ids = RankedTensorType::get({ShapedType::kDynamic},
                                     at.builder->getIntegerType(bits), edges);
    return perRow(IotaOp::create(*at.builder, at.getLoc(), ids, 0),
                  cast<RankedTensorType>(terms).clone(ids.getElementType()));
  }

private:
  /// One number per row, in every place of the row.
  Value perRow(Value numbers, RankedTensorType type) {
    SmallVector<int64_t> ones(type.getRank(), 1);
    ones.front() = ShapedType::kDynamic;
    return broadcastTo(at, reshapeTo(at, numbers, type.clone(ones)), type);
  }

  Adjoint &at;
  End end;
  RowsAttr edges;
};

class AlongAxis : public Combining {
public:
  AlongAxis(Adjoint &adjoint, RankedTensorType terms, int64_t ofTerms)
      : at(adjoint), type(terms), axis(ofTerms) {}

  Value spread(Value totals) override {
    Type element = getElementTypeOrSelf(totals.getType());
    SmallVector<int64_t> kept(type.getShape());
    kept[axis] = 1;
    Value thin = reshapeTo(at, totals, type.clone(kept, element));
    return broadcastTo(at, thin, type.clone(element));
  }

  Value combine(ReduceKind kind, Value terms) override {
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + axis);
    return ReduceAxisOp::create(*at.builder, at.getLoc(),
                                tableType(terms).clone(shape), kind, terms,
                                axis);
  }

  Value count(Value totals) override {
    return at.term(totals).full(type.getDimSize(axis));
  }

  Value positions(Type terms) override {
    Type i64 = at.builder->getI64Type();
    auto line = RankedTensorType::get(featureShape(terms), i64);
    Value positions = IotaOp::create(*at.builder, at.getLoc(), line,
                                     axis - numRowAxes(terms));
    return broadcastTo(at, positions, cast<RankedTensorType>(terms).clone(i64));
  }

private:
  Adjoint &at;
  RankedTensorType type;
  int64_t axis;
};
} // namespace

/// Where a term is the extremum; NaN is when there is one.
static Term attains(Adjoint &at, Combining &over, Value terms) {
  Term x = at.term(terms), y = at.term(at.op->getResult(0));
  return (x == y.with(over.spread(y))) | x.isNaN();
}

/// A position that no term has: of as many edges as an i32 can count, no graph
/// has the last.
static Term behindAll(Term position) {
  bool wide = getElementTypeOrSelf(Value(position).getType()).isInteger(64);
  return position.full(wide ? 0x1p62 : 0x1p31 - 1);
}

static Value ofFirstExtremum(Adjoint &at, Combining &over, Value terms) {
  Term g = at.term(over.spread(at.gradient));
  Term position = at.term(over.positions(terms.getType()));
  Term candidates =
      select(attains(at, over, terms), position, behindAll(position));
  Term first = at.term(over.combine(ReduceKind::Min, candidates));
  return select(position == first.with(over.spread(first)), g, 0.0);
}

static Value ofAllExtrema(Adjoint &at, Combining &over, Value terms) {
  Term here = attains(at, over, terms);
  Term one = at.term(terms).full(1.0);
  Term count = at.term(over.combine(ReduceKind::Sum, select(here, one, 0.0)));
  Term share = at.term(at.gradient) / count;
  return select(here, share.with(over.spread(share)), 0.0);
}

/// The product of the other terms: y / x, and for x = 0 the product of the
/// terms that are not 0, unless there is another 0.
static Value ofProduct(Adjoint &at, Combining &over, Value terms) {
  Term x = at.term(terms), y = at.term(at.op->getResult(0));
  Term isZero = x == 0.0, one = x.full(1.0);
  Term safe = select(isZero, one, x);
  Term zeroCount =
      at.term(over.combine(ReduceKind::Sum, select(isZero, one, 0.0)));
  Term rest = at.term(over.combine(ReduceKind::Prod, safe));
  Term ofZero = select(zeroCount == 1.0, rest, 0.0);
  Term others = select(isZero, x.with(over.spread(ofZero)),
                       x.with(over.spread(y)) / safe);
  return x.with(over.spread(at.gradient)) * others;
}

static void ofCombining(Adjoint &at, Combining &over, ReduceKind kind,
                        Ties ties, Value terms) {
  if (!at.wants(terms))
    return;
  switch (kind) {
  case ReduceKind::Sum:
    return at.add(terms, over.spread(at.gradient));
  case ReduceKind::Mean: {
    Term g = at.term(at.gradient);
    return at.add(terms, over.spread(g / g.with(over.count(g))));
  }
  case ReduceKind::Max:
  case ReduceKind::Min:
    return at.add(terms, ties == Ties::First ? ofFirstExtremum(at, over, terms)
                                             : ofAllExtrema(at, over, terms));
  case ReduceKind::Prod:
    return at.add(terms, ofProduct(at, over, terms));
  }
}

void gossamer::ofReduce(Adjoint &at) {
  auto op = cast<ReduceOp>(at.op);
  OverEdges over(at, op.getEnd(), rowsOf(op.getEdges()));
  ofCombining(at, over, op.getKind(), op.getTies(), op.getEdges());
}

void gossamer::ofReduceAxis(Adjoint &at) {
  auto op = cast<ReduceAxisOp>(at.op);
  AlongAxis over(at, tableType(op.getInput()), op.getAxis());
  ofCombining(at, over, op.getKind(), op.getTies(), op.getInput());
}

/// y (g - sum(y g)).
static void ofNormalising(Adjoint &at, Combining &over, Value terms) {
  if (!at.wants(terms))
    return;
  Term y = at.term(at.op->getResult(0)), g = at.term(at.gradient);
  Value sum = over.combine(ReduceKind::Sum, y * g);
  at.add(terms, y * (g - g.with(over.spread(sum))));
}

void gossamer::ofSoftmax(Adjoint &at) {
  auto op = cast<SoftmaxOp>(at.op);
  OverEdges over(at, op.getEnd(), rowsOf(op.getEdges()));
  ofNormalising(at, over, op.getEdges());
}

void gossamer::ofSoftmaxAxis(Adjoint &at) {
  auto op = cast<SoftmaxAxisOp>(at.op);
  AlongAxis over(at, tableType(op.getInput()), op.getAxis());
  ofNormalising(at, over, op.getInput());
}
