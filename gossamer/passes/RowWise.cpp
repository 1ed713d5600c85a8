#include "gossamer/passes/RowWise.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

/// Renumbers the axes that `op` names when its tables go from `from` to `to`
/// row axes.
static void renumberAxes(Operation *op, int64_t from, int64_t to) {
  Builder builder(op->getContext());
  if (auto axis = op->getAttrOfType<IntegerAttr>("axis"))
    op->setAttr("axis", builder.getI64IntegerAttr(axis.getInt() + to - from));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, to));
    for (int64_t axis : transpose.getPermutation().drop_front(from))
      permutation.push_back(axis + to - from);
    transpose.setPermutation(permutation);
  }
}

Operation *gossamer::cloneOnRows(OpBuilder &builder, Operation *op,
                                 const IRMapping &mapping, RowsAttr rows) {
  assert(isRowWise(op) && "does something else on other rows");
  IRMapping local = mapping;
  Operation *clone = builder.clone(*op, local);
  Value result = clone->getResult(0);
  int64_t from = numRowAxes(result.getType());
  result.setType(withRows(result.getType(), rows));
  if (int64_t to = numRowAxes(result.getType()); from != to)
    renumberAxes(clone, from, to);
  return clone;
}

constexpr llvm::StringLiteral kWasOnEdges = "mp.was_on_edges";

bool gossamer::wasOnEdges(Operation *op) {
  return op && op->hasAttr(kWasOnEdges);
}

Residency Residencies::of(Value value) {
  if (auto known = inferred.find(value); known != inferred.end())
    return known->second;
  Residency residency = infer(value);
  inferred[value] = residency;
  return residency;
}

Residency Residencies::infer(Value value) {
  Residency own{rowsOf(value), std::nullopt};
  Operation *op = value.getDefiningOp();
  if (!op || !own.rows)
    return own;
  if (auto gather = dyn_cast<GatherOp>(op)) {
    Residency nodes = of(gather.getNodes());
    return nodes.rows ? Residency{nodes.rows, gather.getEnd()} : nodes;
  }
  // Numbers of rows that no edge reads may be outside of the table.
  if (!isRowWise(op) || isa<LookupOp>(op))
    return own;
  Residency joined{RowsAttr(), std::nullopt};
  for (Value operand : op->getOperands()) {
    Residency residency = of(operand);
    if (!residency.rows || residency == joined)
      continue;
    if (joined.rows)
      return own;
    joined = residency;
  }
  return joined;
}

bool Residencies::isLower(Value value) {
  return of(value).rows != rowsOf(value);
}

Value Residencies::build(OpBuilder &builder, Value value, RowsAttr rows) {
  if (!rowsOf(value) || rowsOf(value) == rows)
    return value;
  if (auto gather = value.getDefiningOp<GatherOp>())
    return build(builder, gather.getNodes(), rows);
  auto key = std::make_pair(value, Attribute(rows));
  if (Value known = built.lookup(key))
    return known;
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, build(builder, operand, rows));
  Operation *clone = cloneOnRows(builder, op, mapping, rows);
  // Copies are equal to those on nodes, and should become one with them.
  if (rows && onEdges(value.getType()) && !clone->hasTrait<CopiesOnly>())
    clone->setDiscardableAttr(kWasOnEdges, builder.getUnitAttr());
  Value result = clone->getResult(0);
  built[key] = result;
  return result;
}
