#include "gossamer/passes/Formula.h"

#include "gossamer/ir/MpDialect.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace gossamer;

Term Term::full(Type type, double number) const {
  Type element = getElementTypeOrSelf(type);
  TypedAttr constant;
  if (isa<FloatType>(element))
    constant = builder->getFloatAttr(element, number);
  else
    constant = builder->getIntegerAttr(element, static_cast<int64_t>(number));
  return with(mp::FillOp::create(*builder, *loc, type, constant));
}

Term Term::full(double number) const { return full(value.getType(), number); }

static Term compare(Term a, Term b, arith::CmpFPredicate floats,
                    arith::CmpIPredicate integers) {
  Value left = a, right = b;
  if (isa<FloatType>(getElementTypeOrSelf(left.getType())))
    return a.with(
        arith::CmpFOp::create(a.getBuilder(), a.getLoc(), floats, left, right));
  return a.with(
      arith::CmpIOp::create(a.getBuilder(), a.getLoc(), integers, left, right));
}

Term Term::operator==(Term other) const {
  return compare(*this, other, arith::CmpFPredicate::OEQ,
                 arith::CmpIPredicate::eq);
}

Term Term::operator<(Term other) const {
  return compare(*this, other, arith::CmpFPredicate::OLT,
                 arith::CmpIPredicate::slt);
}

Term Term::operator>=(Term other) const {
  return compare(*this, other, arith::CmpFPredicate::OGE,
                 arith::CmpIPredicate::sge);
}

Term Term::isNaN() const {
  return compare(*this, *this, arith::CmpFPredicate::UNO,
                 arith::CmpIPredicate::ne);
}

Term Term::bounded() const {
  auto element = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  TypedAttr largest = FloatAttr::get(
      element, llvm::APFloat::getLargest(element.getFloatSemantics()));
  Term bound =
      with(mp::FillOp::create(*builder, *loc, value.getType(), largest));
  return apply<arith::MinimumFOp>(bound);
}

Term gossamer::select(Term condition, Term a, Term b) {
  return a.with(arith::SelectOp::create(a.getBuilder(), a.getLoc(),
                                        Value(condition), Value(a), Value(b)));
}

Term gossamer::select(Term condition, double a, Term b) {
  return select(condition, b.full(a), b);
}

Term gossamer::select(Term condition, Term a, double b) {
  return select(condition, a, a.full(b));
}

Term gossamer::exp(Term x) { return x.apply<math::ExpOp>(); }
Term gossamer::log(Term x) { return x.apply<math::LogOp>(); }
Term gossamer::sin(Term x) { return x.apply<math::SinOp>(); }
Term gossamer::cos(Term x) { return x.apply<math::CosOp>(); }
Term gossamer::sinh(Term x) { return x.apply<math::SinhOp>(); }
Term gossamer::cosh(Term x) { return x.apply<math::CoshOp>(); }
Term gossamer::rsqrt(Term x) { return x.apply<math::RsqrtOp>(); }
Term gossamer::trunc(Term x) { return x.apply<math::TruncOp>(); }
Term gossamer::pow(Term x, Term y) { return x.apply<math::PowFOp>(y); }
