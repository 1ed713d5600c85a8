#include "gossamer/lowering/OuterFactors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

/// A factor of fewer elements leaves vectors of the product half empty.
static constexpr int64_t kLeastFactor = 8;

/// Whether node `id` depends on the index of some dim of [first, last).
static bool dependsOn(const Expr &expr, unsigned id, unsigned first,
                      unsigned last) {
  llvm::SmallSetVector<unsigned, 16> reached; // each once, however often read
  reached.insert(id);
  for (size_t i = 0; i < reached.size(); ++i) {
    const ExprNode &node = expr.nodes[reached[i]];
    if (node.hasIndex())
      for (unsigned dim = first; dim < last; ++dim)
        if (node.index.coefficients[dim] != 0 && expr.dims[dim] > 1)
          return true;
    reached.insert(node.operands.begin(), node.operands.end());
  }
  return false;
}

static void keepDims(LinearForm &form, unsigned first, unsigned last) {
  auto &list = form.coefficients;
  list.erase(list.begin() + last, list.end());
  list.erase(list.begin(), list.begin() + first);
}

/// Copies node `id`, after what it is computed from.
static unsigned copyNode(const Expr &expr, unsigned id, unsigned first,
                         unsigned last, Expr &into,
                         SmallVectorImpl<int> &copies) {
  if (copies[id] >= 0)
    return copies[id];
  ExprNode node = expr.nodes[id];
  for (unsigned &operand : node.operands)
    operand = copyNode(expr, operand, first, last, into, copies);
  if (node.hasIndex())
    keepDims(node.index, first, last);
  copies[id] = into.nodes.size();
  into.nodes.push_back(std::move(node));
  return copies[id];
}

/// Node `id` as an expression over dims [first, last), all that it depends on.
static Expr factor(const Expr &expr, unsigned id, unsigned first,
                   unsigned last) {
  Expr result;
  result.dims.assign(expr.dims.begin() + first, expr.dims.begin() + last);
  result.axes.assign(expr.axes.begin() + first, expr.axes.begin() + last);
  result.targets.push_back({0, rowMajor(result.dims)});
  SmallVector<int> copies(expr.nodes.size(), -1);
  result.results.push_back(copyNode(expr, id, first, last, result, copies));
  return result;
}

std::optional<OuterFactors> lowering::outerFactors(const Expr &expr) {
  const ExprNode &product = expr.nodes[expr.results.front()];
  if (product.kind != ExprNode::Kind::Compute ||
      !product.value.getDefiningOp<arith::MulFOp>())
    return std::nullopt;
  unsigned a = product.operands[0], b = product.operands[1];
  unsigned dims = expr.dims.size();
  for (unsigned split = 1; split < dims; ++split) {
    if (dependsOn(expr, a, split, dims) || dependsOn(expr, b, 0, split))
      std::swap(a, b);
    if (dependsOn(expr, a, split, dims) || dependsOn(expr, b, 0, split))
      continue;
    OuterFactors found{factor(expr, a, 0, split), factor(expr, b, split, dims)};
    if (std::min(found.left.size(), found.right.size()) >= kLeastFactor)
      return found;
  }
  return std::nullopt;
}
