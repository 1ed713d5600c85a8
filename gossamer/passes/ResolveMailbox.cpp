// Turn what happens in a mailbox into ops on edges.
//
//   before: %b = mp.mailbox %m               after: %s = math.exp %m
//           %s = math.exp %b                        %h = mp.reduce sum dst %s
//           %h = mp.reduce_axis sum %s axis 1
//
// Exact: slot d of row v is the d-th message of v, so an op that treats each
// slot alone is the same op on the message's edge, and an op over axis 1 of the
// mailbox ranges over the edges that end at v, in the same order.
//
// A mailbox is never made: it would hold E rows, in buckets of equal degree.

#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"

namespace gossamer {
#define GEN_PASS_DEF_RESOLVEMAILBOX
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static constexpr int64_t kMessages = 1; // the ragged axis of a mailbox

static bool isMailbox(Type type) {
  RowsAttr rows = rowsOf(type);
  return rows && rows.getKind() == RowKind::Mailbox;
}

/// The edges whose rows are the slots of `mailbox`.
static RowsAttr edgesOf(Type mailbox) {
  RowsAttr rows = rowsOf(mailbox);
  return RowsAttr::get(rows.getContext(), rows.getGraph(), RowKind::Edge,
                       rows.getRelations());
}

namespace {
/// Rewrites the ops of one block, in order.
class Resolver {
public:
  LogicalResult resolve(Operation *op);

private:
  Value edgesFor(Value mailbox) { return onEdges.lookup(mailbox); }
  Value gatherDestinations(OpBuilder &builder, BroadcastOp broadcast);
  void reduceMessages(OpBuilder &builder, ReduceAxisOp reduce);

  /// From values in a mailbox to the same values on edges.
  IRMapping onEdges;
};
} // namespace

/// A destination row of shape (1, F...), repeated for each message, is the row
/// at the destination of the message's edge.
Value Resolver::gatherDestinations(OpBuilder &builder, BroadcastOp broadcast) {
  Location loc = broadcast.getLoc();
  auto nodes = cast<RankedTensorType>(broadcast.getInput().getType());
  SmallVector<int64_t> shape(nodes.getShape());
  shape.erase(shape.begin() + kMessages);
  auto row =
      RankedTensorType::get(shape, nodes.getElementType(), nodes.getEncoding());
  RowsAttr edges = edgesOf(broadcast.getType());
  Value rows = ReshapeOp::create(builder, loc, row, broadcast.getInput());
  Value gathered =
      GatherOp::create(builder, loc, withRows(row, edges), End::Dst, rows);
  Type want = withRows(broadcast.getType(), edges);
  if (gathered.getType() == want)
    return gathered;
  return BroadcastOp::create(builder, loc, want, gathered);
}

void Resolver::reduceMessages(OpBuilder &builder, ReduceAxisOp reduce) {
  remarkApplied(reduce.getLoc(), "resolve-mailbox",
                "reduces messages per node; no mailbox is stored");
  Value nodes = ReduceOp::create(builder, reduce.getLoc(), reduce.getType(),
                                 reduce.getKind(), End::Dst,
                                 edgesFor(reduce.getInput()), reduce.getTies());
  reduce.getResult().replaceAllUsesWith(nodes);
}

LogicalResult Resolver::resolve(Operation *op) {
  OpBuilder builder(op);
  if (auto mailbox = dyn_cast<MailboxOp>(op)) {
    onEdges.map(mailbox.getSlots(), mailbox.getEdges());
    return success();
  }
  if (auto reduce = dyn_cast<ReduceAxisOp>(op); reduce && !isRowWise(op)) {
    reduceMessages(builder, reduce);
    return success();
  }
  if (auto softmax = dyn_cast<SoftmaxAxisOp>(op); softmax && !isRowWise(op)) {
    remarkApplied(op->getLoc(), "resolve-mailbox",
                  "normalises messages per node; no mailbox is stored");
    onEdges.map(softmax.getResult(),
                SoftmaxOp::create(builder, op->getLoc(), End::Dst,
                                  edgesFor(softmax.getInput())));
    return success();
  }
  auto broadcast = dyn_cast<BroadcastOp>(op);
  if (broadcast && rowsOf(broadcast.getInput()) &&
      !isMailbox(broadcast.getInput().getType())) {
    onEdges.map(broadcast.getResult(), gatherDestinations(builder, broadcast));
    return success();
  }
  if (isRowWise(op)) {
    Operation *edges =
        cloneOnRows(builder, op, onEdges, edgesOf(op->getResult(0).getType()));
    onEdges.map(op->getResult(0), edges->getResult(0));
    return success();
  }
  return op->emitError("reads a mailbox as a whole, but nodes have different "
                       "numbers of messages; reduce it over axis 1, or write "
                       "an op that treats each message alone");
}

static bool touchesMailbox(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), isMailbox) ||
         llvm::any_of(op->getResultTypes(), isMailbox);
}

namespace {
struct ResolveMailbox : gossamer::impl::ResolveMailboxBase<ResolveMailbox> {
  void runOnOperation() override {
    if (llvm::any_of(getOperation().getArgumentTypes(), isMailbox)) {
      getOperation().emitError("takes a mailbox, but a mailbox is made by "
                               "mp.mailbox from rows of edges");
      return signalPassFailure();
    }
    Resolver resolver;
    SmallVector<Operation *> mailboxOps;
    getOperation().walk([&](Operation *op) {
      if (touchesMailbox(op))
        mailboxOps.push_back(op);
    });
    for (Operation *op : mailboxOps)
      if (failed(resolver.resolve(op)))
        return signalPassFailure();
    for (Operation *op : llvm::reverse(mailboxOps))
      op->erase();
  }
};
} // namespace
