// The derivative of every op: one table for numbers, one for rows.
//
// The derivative of an op is written with ops that have derivatives themselves,
// so a function can be differentiated again.
#ifndef GOSSAMER_PASSES_DERIVATIVES_H
#define GOSSAMER_PASSES_DERIVATIVES_H

#include "gossamer/passes/Formula.h"
#include "gossamer/passes/NodeRows.h"

namespace gossamer {

/// What an elementwise op reads and gives, and the gradient `g` of its result.
struct At {
  Term a, b, c; // the operands
  Term y;       // the result
  Term g;
};

/// The gradient of one operand; null: that operand has none.
using Slope = Term (*)(const At &);

/// One op in reverse.
class Adjoint {
public:
  virtual ~Adjoint() = default;

  mlir::Operation *op = nullptr;
  mlir::OpBuilder *builder = nullptr;
  /// The gradient of the one result.
  mlir::Value gradient;
  const NodeRows *nodeRows = nullptr;
  /// Whether ids of edges may need more than 32 bits.
  bool wideIndex = false;

  /// True when somebody needs the gradient of an operand.
  virtual bool wants(mlir::Value operand) const = 0;
  /// Adds to the gradient of an operand.
  virtual void add(mlir::Value operand, mlir::Value gradient) = 0;

  mlir::Location getLoc() const { return op->getLoc(); }
  Term term(mlir::Value value) const { return Term(*builder, getLoc(), value); }
};

/// Gives the gradients of the operands that want one.
using Rule = void (*)(Adjoint &);

struct Derivative {
  enum Kind {
    /// Has a derivative: `slopes` of an elementwise op, or a `rule`.
    Known,
    /// Constant almost everywhere, or no function of real numbers.
    Zero,
    /// Never seen by differentiate: `reason` says why.
    Refused
  };

  llvm::StringLiteral name;
  Kind kind;
  Slope slopes[3] = {};
  Rule rule = nullptr;
  llvm::StringLiteral reason = "";

  void apply(Adjoint &adjoint) const;
};

/// arith and math.
llvm::ArrayRef<Derivative> elementwiseDerivatives();
/// mp.
llvm::ArrayRef<Derivative> rowDerivatives();

/// Null when the op is in no table.
const Derivative *findDerivative(llvm::StringRef op);

} // namespace gossamer

#endif
