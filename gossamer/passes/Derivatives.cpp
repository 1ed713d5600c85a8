// Derivatives of arith and math ops.
//
// Each line gives, for the operands a, b, c in turn, the gradient as a function
// of the operands, the result y and its gradient g. Conventions where there is
// no derivative are torch's.
//
// The slope of an exponential is bounded: on the branch that a select does not
// take, it may overflow while g is 0, and 0 times infinity would be NaN.

#include "gossamer/passes/Derivatives.h"

#include "llvm/ADT/StringMap.h"

#include <numbers>

using namespace mlir;
using namespace gossamer;

using std::numbers::inv_sqrtpi;
using std::numbers::ln10;
using std::numbers::ln2;

static constexpr Derivative::Kind Known = Derivative::Known;
static constexpr Derivative::Kind Zero = Derivative::Zero;

/// Ties share evenly; NaN lets everything through, as in torch.
static Term ofExtremum(Term g, Term own, Term other, Term loses) {
  return select(own == other, g * 0.5, select(loses, 0.0, g));
}

static Term signOf(Term x) {
  Term one = x.full(1.0);
  return select(x > 0.0, one, select(x < 0.0, -one, 0.0));
}

/// 0 where the exponent is 0, also at x = 0.
static Term ofBase(const At &t) {
  return select(t.b == 0.0, 0.0, t.g * (t.b * pow(t.a, t.b - 1.0)));
}

/// 0 at x = 0, where the logarithm is infinite and the power is 0 (or 1).
static Term ofExponent(const At &t) {
  Term vanishes = (t.a == 0.0) & (t.b >= 0.0);
  Term safe = select(vanishes, 1.0, t.a);
  return t.g * select(vanishes, 0.0, t.y * log(safe));
}

// clang-format off
static constexpr Derivative kTable[] = {
  // Sums, products, and powers.
  {"arith.addf", Known, {[](const At &t) { return t.g; },
                         [](const At &t) { return t.g; }}},
  {"arith.subf", Known, {[](const At &t) { return t.g; },
                         [](const At &t) { return -t.g; }}},
  {"arith.mulf", Known, {[](const At &t) { return t.g * t.b; },
                         [](const At &t) { return t.g * t.a; }}},
  {"arith.divf", Known, {[](const At &t) { return t.g / t.b; },
                         [](const At &t) { return -(t.g * (t.y / t.b)); }}},
  {"arith.remf", Known, {[](const At &t) { return t.g; },
                         [](const At &t) { return -(t.g * trunc(t.a / t.b)); }}},
  {"arith.negf", Known, {[](const At &t) { return -t.g; }}},
  {"math.powf",  Known, {ofBase, ofExponent}},
  {"math.sqrt",  Known, {[](const At &t) { return t.g / (2.0 * t.y); }}},
  {"math.rsqrt", Known, {[](const At &t) { return -0.5 * (t.g * (t.y * t.y * t.y)); }}},

  // Choices.
  {"arith.select", Known, {nullptr,
                           [](const At &t) { return select(t.a, t.g, 0.0); },
                           [](const At &t) { return select(t.a, 0.0, t.g); }}},
  {"arith.maximumf", Known, {[](const At &t) { return ofExtremum(t.g, t.a, t.b, t.a < t.b); },
                             [](const At &t) { return ofExtremum(t.g, t.b, t.a, t.b < t.a); }}},
  {"arith.minimumf", Known, {[](const At &t) { return ofExtremum(t.g, t.a, t.b, t.a > t.b); },
                             [](const At &t) { return ofExtremum(t.g, t.b, t.a, t.b > t.a); }}},
  {"math.absf", Known, {[](const At &t) { return t.g * signOf(t.a); }}},

  // Exponentials and logarithms.
  {"math.exp",   Known, {[](const At &t) { return t.g * t.y.bounded(); }}},
  {"math.exp2",  Known, {[](const At &t) { return t.g * (t.y.bounded() * ln2); }}},
  {"math.expm1", Known, {[](const At &t) { return t.g * (t.y.bounded() + 1.0); }}},
  {"math.log",   Known, {[](const At &t) { return t.g / t.a; }}},
  {"math.log2",  Known, {[](const At &t) { return t.g / (t.a * ln2); }}},
  {"math.log10", Known, {[](const At &t) { return t.g / (t.a * ln10); }}},
  {"math.log1p", Known, {[](const At &t) { return t.g / (t.a + 1.0); }}},

  // Trigonometry.
  {"math.sin",  Known, {[](const At &t) { return t.g * cos(t.a); }}},
  {"math.cos",  Known, {[](const At &t) { return -(t.g * sin(t.a)); }}},
  {"math.tan",  Known, {[](const At &t) { return t.g * (t.y * t.y + 1.0); }}},
  {"math.asin", Known, {[](const At &t) { return t.g * rsqrt(1.0 - t.a * t.a); }}},
  {"math.acos", Known, {[](const At &t) { return -(t.g * rsqrt(1.0 - t.a * t.a)); }}},
  {"math.atan", Known, {[](const At &t) { return t.g / (t.a * t.a + 1.0); }}},
  {"math.atan2", Known, {[](const At &t) { return t.g * (t.b / (t.a * t.a + t.b * t.b)); },
                         [](const At &t) { return -(t.g * (t.a / (t.a * t.a + t.b * t.b))); }}},
  {"math.sinh", Known, {[](const At &t) { return t.g * cosh(t.a).bounded(); }}},
  {"math.cosh", Known, {[](const At &t) { return t.g * sinh(t.a); }}},
  {"math.tanh", Known, {[](const At &t) { return t.g * (1.0 - t.y * t.y); }}},
  {"math.asinh", Known, {[](const At &t) { return t.g * rsqrt(t.a * t.a + 1.0); }}},
  {"math.acosh", Known, {[](const At &t) { return t.g * rsqrt(t.a * t.a - 1.0); }}},
  {"math.atanh", Known, {[](const At &t) { return t.g / (1.0 - t.a * t.a); }}},
  {"math.erf",  Known, {[](const At &t) { return t.g * (2 * inv_sqrtpi * exp(-(t.a * t.a))); }}},
  {"math.erfc", Known, {[](const At &t) { return t.g * (-2 * inv_sqrtpi * exp(-(t.a * t.a))); }}},

  // Other precisions: the gradient takes the precision of the operand.
  {"arith.extf",   Known, {[](const At &t) { return t.g.as<arith::TruncFOp>(t.a); }}},
  {"arith.truncf", Known, {[](const At &t) { return t.g.as<arith::ExtFOp>(t.a); }}},

  // Steps: 0 almost everywhere.
  {"math.floor", Zero}, {"math.ceil", Zero}, {"math.trunc", Zero}, {"math.roundeven", Zero},
  {"arith.fptosi", Zero}, {"arith.cmpf", Zero}, {"arith.cmpi", Zero},

  // Integers.
  {"arith.constant", Zero},
  {"arith.sitofp", Zero}, {"arith.uitofp", Zero},
  {"arith.extsi", Zero}, {"arith.extui", Zero}, {"arith.trunci", Zero},
  {"arith.addi", Zero}, {"arith.subi", Zero}, {"arith.muli", Zero},
  {"arith.divsi", Zero}, {"arith.floordivsi", Zero}, {"arith.remsi", Zero},
  {"arith.maxsi", Zero}, {"arith.minsi", Zero}, {"math.absi", Zero},
  {"arith.andi", Zero}, {"arith.ori", Zero}, {"arith.xori", Zero},
};
// clang-format on

ArrayRef<Derivative> gossamer::elementwiseDerivatives() { return kTable; }

void Derivative::apply(Adjoint &adjoint) const {
  if (rule)
    return rule(adjoint);
  Operation *op = adjoint.op;
  At at;
  at.g = adjoint.term(adjoint.gradient);
  at.y = adjoint.term(op->getResult(0));
  Term *operands[] = {&at.a, &at.b, &at.c};
  for (auto [term, operand] : llvm::zip(operands, op->getOperands()))
    *term = adjoint.term(operand);
  for (auto [slope, operand] : llvm::zip(slopes, op->getOperands()))
    if (slope && adjoint.wants(operand))
      adjoint.add(operand, slope(at));
}

const Derivative *gossamer::findDerivative(StringRef op) {
  static const llvm::StringMap<const Derivative *> all = [] {
    llvm::StringMap<const Derivative *> map;
    for (ArrayRef<Derivative> table :
         {elementwiseDerivatives(), rowDerivatives()})
      for (const Derivative &derivative : table)
        map[derivative.name] = &derivative;
    return map;
  }();
  return all.lookup(op);
}
