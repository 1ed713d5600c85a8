// The function of one kernel: a loop over blocks of rows, in it the phases of
// the plan:
//
//   for row of block: { stages and sweeps up to the product }
//   the product, for all rows of the block
//   for row of block: { what follows, up to the next product }
//
// Without products, a block is one row.

#include "gossamer/lowering/EmitStages.h"
#include "gossamer/lowering/PrepareKernel.h"
#include "gossamer/program/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static func::FuncOp createFunction(ImplicitLocOpBuilder &b, StringRef symbol) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type i64 = b.getI64Type();
  auto function = func::FuncOp::create(
      b, symbol, b.getFunctionType({pointer, i64, i64, pointer}, {}));
  // Nothing else points into scratch, so loads of tables may move over stores
  // to it.
  function.setArgAttr(3, LLVM::LLVMDialect::getNoAliasAttrName(),
                      b.getUnitAttr());
  function.setArgAttr(0, LLVM::LLVMDialect::getNoAliasAttrName(),
                      b.getUnitAttr());
  b.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

/// The edge stages of one phase. With block buffers, all of them run on one
/// block after the other and totals are in memory.
static void emitSweep(ImplicitLocOpBuilder &b, KernelFrame &frame,
                      StageEmitter &stages, const Phase &phase,
                      int64_t blockEdges) {
  if (!phase.blocked) {
    frame.blockBegin = frame.firstEdge;
    for (const Stage &stage : phase.edgeStages)
      stages.emitOverEdges(stage, {frame.firstEdge, frame.lastEdge, false});
    return;
  }
  for (const Stage &stage : phase.edgeStages)
    if (stage.kind == Stage::Kind::Reduce)
      stages.emitInitialValues(stage);
  emitFor(b, frame.firstEdge, frame.lastEdge, blockEdges, {},
          [&](Value block, ValueRange) {
            frame.blockBegin = block;
            Value end = arith::MinSIOp::create(
                b, arith::AddIOp::create(b, block, constant(b, blockEdges)),
                frame.lastEdge);
            for (const Stage &stage : phase.edgeStages)
              stages.emitOverEdges(stage, {block, end, true});
            return Carried();
          });
}

/// Emits `body` for calls that do the part.
static void emitPart(ImplicitLocOpBuilder &b, KernelFrame &frame,
                     const Plan &plan, int64_t part,
                     function_ref<void()> body) {
  if (!plan.splitsRows)
    return body();
  auto branch = scf::IfOp::create(b, frame.doesPart(part));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

static void emitCombine(ImplicitLocOpBuilder &b, KernelFrame &frame,
                        StageEmitter &stages, const Phase &phase) {
  Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, frame.pieces,
                                    constant(b, 0));
  auto branch = scf::IfOp::create(b, any);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (const Stage &stage : phase.edgeStages)
    if (stage.kind == Stage::Kind::Reduce)
      stages.emitCombinePieces(stage);
}

/// A quarter of a second-level cache. In GCN with 256 x 256 numbers, what
/// products asked for was gone again when the sweep came.
static constexpr int64_t kManyWeightBytes = 256 << 10;

namespace {
/// Emits the phases for a block of rows: what is between two products of the
/// block is one loop over its rows.
class BlockEmitter {
public:
  BlockEmitter(ImplicitLocOpBuilder &builder, KernelFrame &kernelFrame,
               StageEmitter &stageEmitter, const Plan &kernelPlan)
      : b(builder), frame(kernelFrame), stages(stageEmitter), plan(kernelPlan) {
  }

  void emit() {
    next.products = productsThatAsk();
    for (size_t i = 0; i < plan.phases.size(); ++i)
      emitPhase(plan.phases[i], kPartsPerPhase * int64_t(i));
    emitPending();
  }

private:
  static bool isProduct(const Stage &stage) {
    return stage.kind == Stage::Kind::Linear;
  }

  /// None when the weights of all products would push out of the second-level
  /// cache what was asked for.
  int64_t productsThatAsk() {
    if (plan.blockRows == 1 || frame.gatheredBytes() == 0)
      return 0;
    int64_t products = 0, weightBytes = 0;
    for (const Phase &phase : plan.phases)
      for (const Stage &stage : phase.rowStages)
        if (isProduct(stage)) {
          products += StageEmitter::mayAsk(stage);
          weightBytes += StageEmitter::weightBytes(stage);
        }
    return weightBytes < kManyWeightBytes ? products : 0;
  }

  void emitPhase(const Phase &phase, int64_t part) {
    SmallVector<const Stage *> rowStages;
    auto endRowStages = [&] {
      if (!rowStages.empty())
        add(part + kRowPart, [this, rowStages] {
          for (const Stage *stage : rowStages)
            stages.emitOnce(*stage);
        });
      rowStages.clear();
    };
    for (const Stage &stage : phase.rowStages) {
      if (!isProduct(stage) || plan.blockRows == 1) {
        rowStages.push_back(&stage);
        continue;
      }
      endRowStages();
      emitPending();
      emitPart(b, frame, plan, part + kRowPart,
               [&] { stages.emitLinearOverRows(stage, next); });
      next.product += StageEmitter::mayAsk(stage);
    }
    endRowStages();
    if (phase.edgeStages.empty())
      return;
    next.isOfNextBlock = true; // what this one reads is near by now
    add(part + kEdgePart, [this, &phase] {
      emitSweep(b, frame, stages, phase, plan.blockEdges);
    });
    if (plan.splitsRows)
      add(part + kCombinePart,
          [this, &phase] { emitCombine(b, frame, stages, phase); });
  }

  /// `work` follows for each row, in calls that do the part.
  void add(int64_t part, std::function<void()> work) {
    pending.push_back([this, part, work = std::move(work)] {
      emitPart(b, frame, plan, part, work);
    });
  }

  void emitPending() {
    if (pending.empty())
      return;
    auto emitRow = [&](Value row) {
      frame.enterRow(row);
      for (const std::function<void()> &work : pending)
        work();
    };
    if (plan.blockRows == 1)
      emitRow(frame.firstRow);
    else
      emitFor(b, frame.firstRow, frame.lastRow, 1, {},
              [&](Value row, ValueRange) {
                emitRow(row);
                return Carried();
              });
    pending.clear();
  }

  ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  StageEmitter &stages;
  const Plan &plan;
  NextSweep next;
  SmallVector<std::function<void()>> pending; // for each row
};
} // namespace

/// A loop over the rows [begin, end), by blocks.
static void emitRange(ImplicitLocOpBuilder &b, KernelFrame &frame,
                      StageEmitter &stages, const Plan &plan, Value begin,
                      Value end) {
  emitFor(b, begin, end, plan.blockRows, {}, [&](Value block, ValueRange) {
    Value next = arith::AddIOp::create(b, block, constant(b, plan.blockRows));
    frame.enterBlock(block, arith::MinSIOp::create(b, next, end));
    BlockEmitter(b, frame, stages, plan).emit();
    return Carried();
  });
}

/// The loop over rows, in runs when sums over all rows want it so.
static void emitRows(ImplicitLocOpBuilder &b, KernelFrame &frame,
                     StageEmitter &stages, const Plan &plan) {
  auto inRuns = [](const Total &total) { return total.inRuns; };
  if (!llvm::any_of(plan.totals, inRuns))
    return emitRange(b, frame, stages, plan, frame.begin, frame.end);
  emitFor(
      b, frame.begin, frame.end, plan.runRows, {}, [&](Value run, ValueRange) {
        Value next = arith::AddIOp::create(b, run, constant(b, plan.runRows));
        emitRange(b, frame, stages, plan, run,
                  arith::MinSIOp::create(b, next, frame.end));
        for (const Total &total : llvm::make_filter_range(plan.totals, inRuns))
          stages.emitAddRun(total);
        return Carried();
      });
}

FailureOr<KernelInfo> lowering::emitKernel(mp::KernelOp kernel,
                                           StringRef symbol, ModuleOp module,
                                           const KernelOptions &options) {
  prepareKernel(kernel);
  FailureOr<Plan> plan = planKernel(kernel);
  if (failed(plan))
    return failure();
  ImplicitLocOpBuilder b(kernel.getLoc(), module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  func::FuncOp function = createFunction(b, symbol);
  KernelFrame frame(b, function, kernel, *plan, options);
  StageEmitter stages(b, frame, *plan, options);
  if (!plan->sharedStages.empty())
    emitPart(b, frame, *plan, kRowPart, [&] {
      for (const Stage &stage : plan->sharedStages)
        stages.emitOnce(stage);
    });
  for (const Total &total : plan->totals)
    stages.emitEmpty(total);
  if (!plan->phases.empty())
    emitRows(b, frame, stages, *plan);
  for (const Total &total : plan->totals)
    if (total.isOuter)
      stages.emitAddWaiting(total);
  func::ReturnOp::create(b);
  KernelInfo info;
  info.symbol = symbol;
  info.usesEdges = plan->usesEdges;
  info.rowWork = plan->rowWork;
  info.scratchBytes = plan->scratchBytes;
  info.scratchBytesPerDegree = plan->scratchBytesPerDegree;
  info.gatheredBytes = frame.gatheredBytes();
  if (plan->splitsRows) {
    info.phases = plan->phases.size();
    info.partialBytes = plan->partialBytes;
  }
  return info;
}
