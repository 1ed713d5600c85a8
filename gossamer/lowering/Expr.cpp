#include "gossamer/lowering/Expr.h"

#include "gossamer/ir/MpDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <optional>

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

int64_t Expr::size() const {
  int64_t size = 1;
  for (int64_t dim : dims)
    size *= dim;
  return size;
}

SmallVector<int64_t, 4> lowering::rowMajor(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

bool lowering::isOwnRow(mp::GatherOp gather) {
  return gather.getEnd() == gather->getParentOfType<mp::KernelOp>().getEnd();
}

bool lowering::isView(Operation *op) {
  return isa<mp::GatherOp, mp::LookupOp, mp::BroadcastOp, mp::ReshapeOp,
             mp::TransposeOp, mp::SliceOp>(op);
}

namespace {

/// Where along each axis of a value the loop nest reads.
using AxisForms = SmallVector<LinearForm, 4>;

/// Dim `dim` has to become two, the inner one of size `inner`.
struct Split {
  unsigned dim;
  int64_t inner;
};

/// One attempt to build the nodes over given dims. Stops at the first reshape
/// that needs a dim split, or a value in memory.
class ExprBuilder {
public:
  ExprBuilder(ArrayRef<int64_t> sizes, function_ref<bool(Value)> leafTest)
      : dims(sizes), isLeaf(leafTest) {}

  std::optional<unsigned> visit(Value value, const AxisForms &at,
                                bool mayBeLeaf = true);

  SmallVector<ExprNode, 8> nodes;
  std::optional<Split> split;
  Value needed;

private:
  std::optional<unsigned> visitOp(Operation *op, const AxisForms &at);
  std::optional<unsigned> visitReshaped(Value value, const LinearForm &flat);
  std::optional<unsigned> compute(Operation *op, ValueRange operands,
                                  const AxisForms &at, ExprNode::Kind kind);
  std::optional<unsigned> add(ExprNode node, const AxisForms &at);
  std::optional<AxisForms> unflatten(const LinearForm &flat,
                                     ArrayRef<int64_t> shape, Value value);
  LinearForm zero() const {
    return {0, SmallVector<int64_t, 4>(dims.size(), 0)};
  }

  ArrayRef<int64_t> dims;
  function_ref<bool(Value)> isLeaf;
  using Key = std::pair<void *, std::vector<int64_t>>;
  static Key keyOf(Value value, const AxisForms &at);
  std::map<Key, unsigned> known; // only ever looked up, never iterated
};

} // namespace

static void addScaled(LinearForm &to, const LinearForm &form, int64_t scale) {
  to.offset += form.offset * scale;
  for (auto [t, c] : llvm::zip(to.coefficients, form.coefficients))
    t += c * scale;
}

static LinearForm flatten(const AxisForms &at, ArrayRef<int64_t> strides,
                          LinearForm flat) {
  for (auto [form, stride] : llvm::zip(at, strides))
    addScaled(flat, form, stride);
  return flat;
}

ExprBuilder::Key ExprBuilder::keyOf(Value value, const AxisForms &at) {
  Key key{value.getAsOpaquePointer(), {}};
  for (const LinearForm &form : at) {
    key.second.push_back(form.offset);
    llvm::append_range(key.second, form.coefficients);
  }
  return key;
}

std::optional<unsigned> ExprBuilder::add(ExprNode node, const AxisForms &at) {
  auto [entry, isNew] = known.try_emplace(keyOf(node.value, at), nodes.size());
  if (isNew)
    nodes.push_back(std::move(node));
  return entry->second;
}

static std::optional<ExprNode> constantNode(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<mp::DegreeOp>(op))
    return ExprNode{ExprNode::Kind::Degree, value, {}, {}, false};
  if (isa_and_nonnull<mp::IotaOp>(op) && mp::onEdges(value.getType()))
    return ExprNode{ExprNode::Kind::EdgeId, value, {}, {}, true};
  if (isa_and_nonnull<mp::IotaOp>(op) && mp::rowsOf(value))
    return ExprNode{ExprNode::Kind::RowId, value, {}, {}, false};
  if (isa_and_nonnull<mp::FillOp, arith::ConstantOp>(op))
    return ExprNode{ExprNode::Kind::Splat, value, {}, {}, false};
  return std::nullopt;
}

static ExprNode randomNode(mp::UniformOp uniform, const LinearForm &flat) {
  Value value = uniform.getResult();
  return {
      ExprNode::Kind::Random, value, {}, flat, mp::onEdges(value.getType())};
}

std::optional<unsigned> ExprBuilder::visit(Value value, const AxisForms &at,
                                           bool mayBeLeaf) {
  if (std::optional<ExprNode> constant = constantNode(value))
    return add(*constant, {});
  if (mayBeLeaf && isLeaf(value)) {
    ExprNode leaf{ExprNode::Kind::Leaf, value, {}, {}, false};
    leaf.index =
        flatten(at, rowMajor(mp::featureShape(value.getType())), zero());
    leaf.perEdge = mp::onEdges(value.getType());
    return add(std::move(leaf), {leaf.index});
  }
  return visitOp(value.getDefiningOp(), at);
}

std::optional<unsigned> ExprBuilder::visitOp(Operation *op,
                                             const AxisForms &at) {
  using Node = std::optional<unsigned>;
  return llvm::TypeSwitch<Operation *, Node>(op)
      .Case([&](mp::GatherOp gather) -> Node {
        Value table = gather.getNodes();
        if (isOwnRow(gather))
          return visit(table, at);
        // The leaf is the gather, not the table: it says at which end to read.
        ExprNode leaf{ExprNode::Kind::Leaf, gather.getResult(), {}, {}, true};
        leaf.index =
            flatten(at, rowMajor(mp::featureShape(table.getType())), zero());
        return add(std::move(leaf), {leaf.index});
      })
      .Case([&](mp::LookupOp lookup) -> Node {
        ArrayRef<int64_t> shape = mp::featureShape(lookup.getType());
        ExprNode leaf{ExprNode::Kind::Leaf, lookup.getResult(), {}, {}, false};
        leaf.index = flatten(at, rowMajor(shape), zero());
        leaf.perEdge = mp::onEdges(lookup.getType());
        return add(std::move(leaf), {leaf.index});
      })
      .Case([&](mp::BroadcastOp broadcast) -> Node {
        ArrayRef<int64_t> have =
            mp::featureShape(broadcast.getInput().getType());
        AxisForms from(ArrayRef<LinearForm>(at).take_back(have.size()));
        for (auto [form, size] : llvm::zip(from, have))
          if (size == 1)
            form = zero();
        return visit(broadcast.getInput(), from);
      })
      .Case([&](mp::TransposeOp transpose) -> Node {
        int64_t rowAxes = mp::numRowAxes(transpose.getType());
        AxisForms from(at.size());
        for (auto [axis, source] :
             llvm::enumerate(transpose.getPermutation().drop_front(rowAxes)))
          from[source - rowAxes] = at[axis];
        return visit(transpose.getInput(), from);
      })
      .Case([&](mp::SliceOp slice) -> Node {
        AxisForms from(at);
        LinearForm &axis =
            from[slice.getAxis() - mp::numRowAxes(slice.getType())];
        LinearForm scaled = zero();
        addScaled(scaled, axis, slice.getStride());
        scaled.offset += slice.getOffset();
        axis = scaled;
        return visit(slice.getInput(), from);
      })
      .Case([&](mp::ReshapeOp reshape) -> Node {
        return visitReshaped(
            reshape.getInput(),
            flatten(at, rowMajor(mp::featureShape(reshape.getType())), zero()));
      })
      .Case([&](mp::IotaOp iota) -> Node {
        ExprNode node{
            ExprNode::Kind::Position, iota.getResult(), {}, {}, false};
        node.index = at[iota.getAxis()];
        return add(std::move(node), {node.index});
      })
      .Case([&](mp::UniformOp uniform) -> Node {
        ArrayRef<int64_t> shape = mp::featureShape(uniform.getType());
        LinearForm flat = flatten(at, rowMajor(shape), zero());
        return add(randomNode(uniform, flat), {flat});
      })
      .Case([&](mp::FillIsolatedOp fill) -> Node {
        return compute(op, fill.getNodes(), at, ExprNode::Kind::FillEmpty);
      })
      .Default([&](Operation *) -> Node {
        return compute(op, op->getOperands(), at, ExprNode::Kind::Compute);
      });
}

std::optional<unsigned> ExprBuilder::compute(Operation *op, ValueRange operands,
                                             const AxisForms &at,
                                             ExprNode::Kind kind) {
  // Before its operands: in a chain of squares they would double each time.
  auto before = known.find(keyOf(op->getResult(0), at));
  if (before != known.end())
    return before->second;
  ExprNode node{kind, op->getResult(0), {}, {}, false};
  for (Value operand : operands) {
    std::optional<unsigned> id = visit(operand, at);
    if (!id)
      return std::nullopt;
    node.operands.push_back(*id);
    node.perEdge |= nodes[*id].perEdge;
  }
  return add(std::move(node), at);
}

std::optional<unsigned> ExprBuilder::visitReshaped(Value value,
                                                   const LinearForm &flat) {
  if (std::optional<ExprNode> constant = constantNode(value))
    return add(*constant, {});
  auto gather = value.getDefiningOp<mp::GatherOp>();
  bool ownRow = gather && isOwnRow(gather);
  if (isLeaf(value) || (gather && !ownRow) ||
      value.getDefiningOp<mp::LookupOp>()) {
    ExprNode node{ExprNode::Kind::Leaf, value, {}, flat, false};
    node.perEdge = mp::onEdges(value.getType());
    return add(std::move(node), {flat});
  }
  if (ownRow)
    return visitReshaped(gather.getNodes(), flat);
  if (auto reshape = value.getDefiningOp<mp::ReshapeOp>())
    return visitReshaped(reshape.getInput(), flat);
  if (auto uniform = value.getDefiningOp<mp::UniformOp>())
    return add(randomNode(uniform, flat), {flat});
  std::optional<AxisForms> at =
      unflatten(flat, mp::featureShape(value.getType()), value);
  return at ? visit(value, *at) : std::nullopt;
}

/// The forms per axis of `shape` that together are `flat`: each dim has to move
/// along one axis only, without carry.
std::optional<AxisForms> ExprBuilder::unflatten(const LinearForm &flat,
                                                ArrayRef<int64_t> shape,
                                                Value value) {
  SmallVector<int64_t, 4> strides = rowMajor(shape);
  AxisForms at(shape.size(), zero());
  for (auto [axis, form] : llvm::enumerate(at))
    form.offset = flat.offset / strides[axis] % shape[axis];
  for (auto [dim, size] : llvm::enumerate(dims)) {
    int64_t step = flat.coefficients[dim];
    if (step == 0 || size == 1)
      continue;
    size_t axis = 0;
    while (axis < shape.size() && (shape[axis] == 1 || step % strides[axis]))
      ++axis;
    if (axis == shape.size())
      return needed = value, std::nullopt;
    int64_t room = shape[axis] * strides[axis] / step;
    if (size > room) {
      bool even = room > 1 && shape[axis] * strides[axis] % step == 0 &&
                  size % room == 0;
      if (even)
        split = Split{static_cast<unsigned>(dim), room};
      else
        needed = value;
      return std::nullopt;
    }
    at[axis].coefficients[dim] = step / strides[axis];
  }
  for (auto [axis, form] : llvm::enumerate(at)) {
    int64_t last = form.offset;
    for (auto [c, size] : llvm::zip(form.coefficients, dims))
      last += c * (size - 1);
    if (last >= shape[axis])
      return needed = value, std::nullopt;
  }
  return at;
}

/// Merges dim `dim` + 1 into `dim`.
static void mergeNext(Expr &expr, unsigned dim) {
  auto merge = [&](LinearForm &form) {
    form.coefficients.erase(form.coefficients.begin() + dim);
  };
  for (ExprNode &node : expr.nodes)
    if (node.hasIndex())
      merge(node.index);
  for (LinearForm &target : expr.targets)
    merge(target);
  expr.dims[dim + 1] *= expr.dims[dim];
  expr.dims.erase(expr.dims.begin() + dim);
  expr.axes.erase(expr.axes.begin() + dim);
}

/// True when every leaf and target sees dims `dim` and `dim` + 1 as one.
static bool areOne(const Expr &expr, unsigned dim) {
  int64_t outer = expr.dims[dim], inner = expr.dims[dim + 1];
  auto seesOne = [&](const LinearForm &form) {
    return outer == 1 || inner == 1 ||
           form.coefficients[dim] == form.coefficients[dim + 1] * inner;
  };
  return llvm::all_of(expr.targets, seesOne) &&
         llvm::all_of(expr.nodes, [&](const ExprNode &node) {
           return !node.hasIndex() || seesOne(node.index);
         });
}

/// A dim of size 1 has no step: give it the one that lets neighbours merge.
static void mergeDims(Expr &expr, bool mergeAxes) {
  for (size_t dim = 0; dim + 1 < expr.dims.size();) {
    bool sameAxis = mergeAxes || expr.axes[dim] == expr.axes[dim + 1];
    if (!sameAxis || !areOne(expr, dim)) {
      ++dim;
      continue;
    }
    if (expr.dims[dim + 1] == 1) {
      // The outer dim survives: its steps move to the place that stays.
      auto keep = [&](LinearForm &form) {
        form.coefficients[dim + 1] = form.coefficients[dim];
      };
      for (ExprNode &node : expr.nodes)
        if (node.hasIndex())
          keep(node.index);
      for (LinearForm &target : expr.targets)
        keep(target);
      expr.axes[dim + 1] = expr.axes[dim];
    }
    mergeNext(expr, dim);
  }
}

std::variant<Expr, Value> lowering::buildExpr(ArrayRef<Value> results,
                                              ArrayRef<Target> targets,
                                              function_ref<bool(Value)> isLeaf,
                                              bool resultsMayBeLeaves,
                                              bool mergeAxes) {
  ArrayRef<int64_t> shape = mp::featureShape(results.front().getType());
  Expr expr;
  expr.dims.assign(shape.begin(), shape.end());
  for (unsigned axis = 0; axis < shape.size(); ++axis)
    expr.axes.push_back(axis);

  while (true) {
    // The index along each axis of the results is row-major in its dims.
    AxisForms at(shape.size(),
                 {0, SmallVector<int64_t, 4>(expr.dims.size(), 0)});
    SmallVector<int64_t, 4> step(shape.size(), 1);
    for (size_t dim = expr.dims.size(); dim-- > 0;) {
      unsigned axis = expr.axes[dim];
      at[axis].coefficients[dim] = step[axis];
      step[axis] *= expr.dims[dim];
    }
    ExprBuilder builder(expr.dims, isLeaf);
    expr.results.clear();
    for (Value result : results) {
      std::optional<unsigned> id =
          builder.visit(result, at, resultsMayBeLeaves);
      if (!id)
        break;
      expr.results.push_back(*id);
    }
    if (builder.needed)
      return builder.needed;
    if (std::optional<Split> split = builder.split) {
      expr.dims[split->dim] /= split->inner;
      expr.dims.insert(expr.dims.begin() + split->dim + 1, split->inner);
      expr.axes.insert(expr.axes.begin() + split->dim, expr.axes[split->dim]);
      continue;
    }
    expr.nodes = std::move(builder.nodes);
    LinearForm zero{0, SmallVector<int64_t, 4>(expr.dims.size(), 0)};
    for (const Target &target : targets) {
      LinearForm &form =
          expr.targets.emplace_back(flatten(at, target.strides, zero));
      form.offset += target.offset;
    }
    mergeDims(expr, mergeAxes);
    return expr;
  }
}
