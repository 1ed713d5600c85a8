// Print which ops have a derivative: documentation, and a check that none is
// forgotten.

#include "gossamer/passes/Derivatives.h"
#include "gossamer/passes/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace gossamer {
#define GEN_PASS_DEF_LISTDERIVATIVES
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;

static StringRef describe(const Derivative *derivative) {
  if (!derivative)
    return "missing";
  switch (derivative->kind) {
  case Derivative::Known:
    return "known";
  case Derivative::Zero:
    return "zero";
  case Derivative::Refused:
    return derivative->reason;
  }
  return "";
}

namespace {
struct ListDerivatives : gossamer::impl::ListDerivativesBase<ListDerivatives> {
  void runOnOperation() override {
    for (RegisteredOperationName op : getContext().getRegisteredOperations()) {
      StringRef dialect = op.getDialectNamespace();
      if (dialect == "mp" || dialect == "arith" || dialect == "math")
        llvm::outs() << op.getStringRef() << ": "
                     << describe(findDerivative(op.getStringRef())) << "\n";
    }
    markAllAnalysesPreserved();
  }
};
} // namespace
