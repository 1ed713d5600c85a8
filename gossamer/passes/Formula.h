// Arithmetic on tables of one type, written as formulas.
#ifndef GOSSAMER_PASSES_FORMULA_H
#define GOSSAMER_PASSES_FORMULA_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace gossamer {

/// A table in a formula. Operators build ops where the builder stands; a number
/// means a table of the other operand's type that is full of it.
class Term {
public:
  Term() = default;
  Term(mlir::OpBuilder &opBuilder, mlir::Location location, mlir::Value table)
      : builder(&opBuilder), loc(location), value(table) {}

  operator mlir::Value() const { return value; }

  /// `number` in every place.
  Term full(double number) const;
  /// `number` in every place of a table of integers or floats like `type`.
  Term full(mlir::Type type, double number) const;

  template <typename Op> Term apply() const {
    return with(Op::create(*builder, *loc, value));
  }
  template <typename Op> Term apply(Term other) const {
    return with(Op::create(*builder, *loc, value, other.value));
  }

  /// In the precision of `other`.
  template <typename Op> Term as(Term other) const {
    return with(Op::create(*builder, *loc, other.value.getType(), value));
  }

  /// Where the comparison holds; never where one is NaN.
  Term operator==(Term other) const;
  Term operator==(double number) const { return *this == full(number); }
  Term operator<(Term other) const;
  Term operator<(double number) const { return *this < full(number); }
  Term operator>(Term other) const { return other < *this; }
  Term operator>(double number) const { return *this > full(number); }
  Term operator>=(Term other) const;
  Term operator>=(double number) const { return *this >= full(number); }
  Term isNaN() const;
  Term operator&(Term other) const { return apply<mlir::arith::AndIOp>(other); }
  Term operator|(Term other) const { return apply<mlir::arith::OrIOp>(other); }

  friend Term operator+(Term a, Term b) {
    return a.apply<mlir::arith::AddFOp>(b);
  }
  friend Term operator-(Term a, Term b) {
    return a.apply<mlir::arith::SubFOp>(b);
  }
  friend Term operator*(Term a, Term b) {
    return a.apply<mlir::arith::MulFOp>(b);
  }
  friend Term operator/(Term a, Term b) {
    return a.apply<mlir::arith::DivFOp>(b);
  }
  friend Term operator+(Term a, double b) { return a + a.full(b); }
  friend Term operator-(Term a, double b) { return a - a.full(b); }
  friend Term operator*(Term a, double b) { return a * a.full(b); }
  friend Term operator/(Term a, double b) { return a / a.full(b); }
  friend Term operator-(double a, Term b) { return b.full(a) - b; }
  friend Term operator*(double a, Term b) { return b.full(a) * b; }
  friend Term operator/(double a, Term b) { return b.full(a) / b; }
  friend Term operator-(Term a) { return a.apply<mlir::arith::NegFOp>(); }

  /// This where it is finite, else the largest number: 0 times it is 0.
  Term bounded() const;

  mlir::OpBuilder &getBuilder() const { return *builder; }
  mlir::Location getLoc() const { return *loc; }
  Term with(mlir::Value other) const { return Term(*builder, *loc, other); }

private:
  mlir::OpBuilder *builder = nullptr;
  std::optional<mlir::Location> loc;
  mlir::Value value;
};

Term select(Term condition, Term a, Term b);
Term select(Term condition, double a, Term b);
Term select(Term condition, Term a, double b);

Term exp(Term x);
Term log(Term x);
Term sin(Term x);
Term cos(Term x);
Term sinh(Term x);
Term cosh(Term x);
Term rsqrt(Term x);
Term trunc(Term x);
Term pow(Term x, Term y);

} // namespace gossamer

#endif
