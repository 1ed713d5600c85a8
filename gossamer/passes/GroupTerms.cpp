// Add up what one end of the edges gives before the other end's rows join.
//
//   before: %a = arith.subf gather dst %t, gather src %t
//           %m = arith.addf %a, gather src %p
//   after:  %q = arith.subf gather src %p, gather src %t
//           %m = arith.addf gather dst %t, %q
//
// hoist-before-gather then computes %q per node, and an edge reads one row of
// its source where it read two. Rows of parameters are grouped likewise.
//
// Equal in real arithmetic; reassociates the sum. Where torch rounds the sum to
// 16 bits, so may its parts be. It pays when two rows or more that nothing else
// reads become one.

#include "gossamer/passes/NodeRows.h"
#include "gossamer/passes/Passes.h"
#include "gossamer/passes/Remarks.h"
#include "gossamer/passes/RowWise.h"
#include "gossamer/passes/StoredFormat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

namespace gossamer {
#define GEN_PASS_DEF_GROUPTERMS
#include "gossamer/passes/Passes.h.inc"
} // namespace gossamer

using namespace mlir;
using namespace gossamer;
using namespace gossamer::mp;

static bool isSum(Operation *op) {
  return isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::NegFOp>(op);
}

/// True when the one user of a sum adds it to something else.
static bool isInLargerSum(Operation *op) {
  return op->hasOneUse() && isSum(*op->user_begin());
}

namespace {
struct Term {
  Value value;
  bool negative;
};

/// One sum as terms, those of one residency together.
class Grouping {
public:
  explicit Grouping(Operation *op) : root(op), builder(op), loc(op->getLoc()) {}

  /// False when the sum should stay as it is.
  bool run();

private:
  void collect(Value value, bool negative);
  Term add(Term a, Term b);
  Term sumOf(ArrayRef<Term> terms);

  Operation *root;
  OpBuilder builder;
  Location loc;
  Residencies residencies;
  /// In order of their first terms; what is known on edges only comes last.
  SmallVector<std::pair<Residency, SmallVector<Term>>> groups;
};
} // namespace

void Grouping::collect(Value value, bool negative) {
  Operation *op = value.getDefiningOp();
  bool follow = isSum(op) && !residencies.isLower(value) &&
                (op == root || value.hasOneUse());
  if (!follow) {
    Residency home = residencies.of(value);
    auto *group =
        llvm::find_if(groups, [&](auto &g) { return g.first == home; });
    if (group == groups.end())
      group = &groups.emplace_back(home, SmallVector<Term>());
    group->second.push_back({value, negative});
    return;
  }
  collect(op->getOperand(0), negative != isa<arith::NegFOp>(op));
  if (op->getNumOperands() == 2)
    collect(op->getOperand(1), negative != isa<arith::SubFOp>(op));
}

/// True when adding up the terms saves reading some of them.
static bool pays(ArrayRef<Term> group) {
  return llvm::count_if(group, [](const Term &term) {
           return term.value.hasOneUse();
         }) >= 2;
}

/// The sum of two terms; positive unless both are negative.
Term Grouping::add(Term a, Term b) {
  Operation *sum;
  bool negative = a.negative && b.negative;
  if (a.negative == b.negative) {
    sum = arith::AddFOp::create(builder, loc, a.value, b.value);
  } else {
    if (a.negative)
      std::swap(a, b);
    sum = arith::SubFOp::create(builder, loc, a.value, b.value);
  }
  setStoredFormat(sum, storedFormat(root));
  return {sum->getResult(0), negative};
}

Term Grouping::sumOf(ArrayRef<Term> terms) {
  Term total = terms.front();
  for (const Term &term : terms.drop_front())
    total = add(total, term);
  return total;
}

bool Grouping::run() {
  Value result = root->getResult(0);
  collect(result, /*negative=*/false);
  RowsAttr edges = rowsOf(result);
  bool gains = llvm::any_of(groups, [&](auto &group) {
    return group.first.rows != edges && pays(group.second);
  });
  if (groups.size() < 2 || !gains)
    return false;
  SmallVector<Term> sums;
  for (auto &[home, terms] : groups)
    sums.push_back(sumOf(terms));
  Term total = sumOf(sums);
  if (total.negative) {
    total.value = arith::NegFOp::create(builder, loc, total.value);
    setStoredFormat(total.value.getDefiningOp(), storedFormat(root));
  }
  remarkApplied(loc, "group-terms", "adds up the rows of one end first",
                /*reassociates=*/true);
  result.replaceAllUsesWith(total.value);
  return true;
}

namespace {
struct GroupTerms : gossamer::impl::GroupTermsBase<GroupTerms> {
  void runOnOperation() override {
    SmallVector<Operation *> sums;
    getOperation().walk([&](Operation *op) {
      if (isSum(op) && onEdges(op->getResult(0).getType()) &&
          !isInLargerSum(op))
        sums.push_back(op);
    });
    for (Operation *sum : sums)
      Grouping(sum).run();
    eraseDeadOps(getOperation());
  }
};
} // namespace
