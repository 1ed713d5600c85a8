// Matrix products inside a kernel: rows of a table or buffer times a weight
// without rows.
//
// A tile is a few rows times a few vectors of outputs, all in registers:
//
//   for columns: for rows: { sums = 0
//     for k: { w = weight[k, columns]; for row: sums[row] += input[row, k] * w
//     } output[rows, columns] = sums }
//
// Each output is a sum over k in order, whatever the tile: the bits do not
// depend on which rows share one.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static constexpr int64_t kRowsPerTile = 4;
/// Of a sum, between two times that rows are asked for. Several rows at a time
/// share the wait for their pages, and more would not be on their way at once.
static constexpr int64_t kStepsBetween = 16;

/// Idle lanes are 0, and nothing is read for them.
static Value loadColumns(ImplicitLocOpBuilder &b, KernelFrame &frame,
                         Value pointer, Type element, const Segment &columns) {
  if (columns.idle == 0)
    return frame.load(pointer, element, columns.lanes);
  auto type = cast<VectorType>(vectorOf(element, columns.lanes));
  SmallVector<bool> valid(columns.lanes - columns.idle, true);
  valid.resize(columns.lanes, false);
  auto mask = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type.clone(b.getI1Type()), valid));
  return LLVM::MaskedLoadOp::create(b, type, pointer, mask, zero(b, type),
                                    bytesOf(element));
}

static int64_t fullLanes(const Stage &stage, const KernelOptions &options) {
  return options.vectorBytes /
         std::max<int64_t>(4, bytesOf(stage.places.front().element));
}

static int64_t outputsOf(const Stage &stage) {
  return stage.places.front().width / stage.lead;
}

/// Emits `body` for tiles of columns; sums take three quarters of the
/// registers.
void StageEmitter::forEachColumns(const Stage &stage,
                                  function_ref<void(const Tile &)> body) {
  int64_t lanes = fullLanes(stage, options);
  int64_t vectors =
      std::max<int64_t>(1, options.accumulators * 3 / 2 / kRowsPerTile);
  forEachTile(b, {outputsOf(stage)}, 0, 1, vectors * lanes, lanes,
              originTile(1), {}, [&](const Tile &columns, ValueRange) {
                body(columns);
                return Carried();
              });
}

/// Stores all but idle lanes, in vectors of powers of two: a masked store is
/// slow on some machines.
void StageEmitter::storeProduct(const Stage &stage, Value value, Value row,
                                const Tile &tile, const Segment &columns) {
  const LinearForm target{0, {1}};
  // Leading features are rows of their own, anywhere in a cache line.
  if (columns.idle == 0 && stage.lead == 1)
    return storeResult(b, frame, value, stage.places.front(), row, tile, target,
                       columns);
  Tile valid{{Value()}, {columns.lanes - columns.idle}, {1}};
  for (Segment part : valid.segments(columns.lanes)) {
    Value lanes = value;
    if (part.lanes == 1 && columns.lanes > 1)
      lanes = vector::ExtractOp::create(b, value, part.start);
    else if (part.lanes < columns.lanes)
      lanes = vector::ShuffleOp::create(
          b, value, value,
          llvm::to_vector(llvm::seq(part.start, part.start + part.lanes)));
    part.start += columns.start;
    storeSegment(b, frame, lanes, row, tile, target, part);
  }
}

/// outputs[r][o] = sum_k inputs[r][k] * weight[k][o], for o in `tile`.
void StageEmitter::emitProductTile(const Stage &stage, const Tile &tile,
                                   ArrayRef<Value> inputs,
                                   ArrayRef<Value> outputs,
                                   function_ref<void(Value)> betweenSteps) {
  Type element = stage.places.front().element;
  // Only AVX has masked loads of these types.
  SmallVector<Segment> columns =
      tile.segments(fullLanes(stage, options),
                    /*mayIdle=*/options.vectorBytes >= 32);
  Value base = tile.baseOffset(b, LinearForm{0, {1}});
  Value weight =
      frame.element(frame.rowOf(stage.weight, nullptr), element, base, 0);
  Carried start;
  for (size_t row = 0; row < inputs.size(); ++row)
    for (const Segment &part : columns)
      start.push_back(zero(b, vectorOf(element, part.lanes)));
  auto addStep = [&](Value k, ValueRange carried) {
    Value row = frame.element(
        weight, element,
        arith::MulIOp::create(b, k, constant(b, outputsOf(stage))), 0);
    SmallVector<Value> weights;
    for (const Segment &part : columns)
      weights.push_back(loadColumns(
          b, frame, frame.element(row, element, Value(), part.start), element,
          part));
    Carried next;
    for (Value input : inputs) {
      Value x = frame.load(frame.element(input, element, k, 0), element, 1);
      for (Value w : weights)
        next.push_back(
            combine(b, mp::ReduceKind::Sum, carried[next.size()],
                    multiply(b, broadcastTo(b, x, lanesOf(w.getType())), w)));
    }
    return next;
  };
  Value begin = constant(b, 0), end = constant(b, stage.depth);
  Carried sums =
      betweenSteps ? emitFor(b, begin, end, kStepsBetween, start,
                             [&](Value k, ValueRange carried) {
                               betweenSteps(k);
                               Value last = arith::AddIOp::create(
                                   b, k, constant(b, kStepsBetween));
                               if (stage.depth % kStepsBetween != 0)
                                 last = arith::MinSIOp::create(b, last, end);
                               return emitFor(b, k, last, 1, carried, addStep);
                             })
                   : emitFor(b, begin, end, 1, start, addStep);
  for (auto [index, sum] : llvm::enumerate(sums))
    storeProduct(stage, sum, outputs[index / columns.size()], tile,
                 columns[index % columns.size()]);
}

void StageEmitter::emitProduct(const Stage &stage, ArrayRef<Value> inputs,
                               ArrayRef<Value> outputs) {
  forEachColumns(stage, [&](const Tile &columns) {
    emitProductTile(stage, columns, inputs, outputs);
  });
}

/// Rows [first, last) from `input` and `output` on, some at a time.
static void forEachRows(ImplicitLocOpBuilder &b, Value first, Value last,
                        function_ref<void(Value first, int64_t count)> body) {
  Value count = arith::SubIOp::create(b, last, first);
  Value rest = arith::AndIOp::create(b, count, constant(b, kRowsPerTile - 1));
  Value whole = arith::SubIOp::create(b, last, rest);
  emitFor(b, first, whole, kRowsPerTile, {}, [&](Value row, ValueRange) {
    body(row, kRowsPerTile);
    return Carried();
  });
  emitFor(b, whole, last, 1, {}, [&](Value row, ValueRange) {
    body(row, 1);
    return Carried();
  });
}

bool StageEmitter::mayAsk(const Stage &product) { return product.lead == 1; }

int64_t StageEmitter::weightBytes(const Stage &product) {
  return product.depth * outputsOf(product) *
         bytesOf(product.places.front().element);
}

/// As large a part of the rows as steps from `k` on, for `columns`, are of all
/// products.
void StageEmitter::prefetchDuring(const Stage &stage, const NextSweep &next,
                                  const Tile &columns, Value k,
                                  const EdgesToCome &edges) {
  int64_t outputs = outputsOf(stage), size = columns.shape.front();
  int64_t times = llvm::divideCeil(stage.depth, kStepsBetween);
  Value done = arith::DivUIOp::create(b, k, constant(b, kStepsBetween));
  done = arith::MulIOp::create(b, done, constant(b, size));
  if (Value before = columns.baseOffset(b, LinearForm{0, {times}}))
    done = arith::AddIOp::create(b, done, before);
  done = arith::AddIOp::create(b, done,
                               constant(b, next.product * outputs * times));
  prefetchToCome(edges, done, size, next.products * outputs * times);
}

/// All rows of the block, each with its leading features: they follow each
/// other in memory. A tile of columns of the weight serves all of them before
/// the next one is read.
void StageEmitter::emitLinearOverRows(const Stage &stage,
                                      const NextSweep &next) {
  frame.row = frame.firstRow;
  Type element = stage.places.front().element;
  Value input = frame.rowOf(stage.input, nullptr);
  Value output = frame.rowOf(stage.places.front(), nullptr);
  Value rows = arith::MulIOp::create(
      b, arith::SubIOp::create(b, frame.lastRow, frame.firstRow),
      constant(b, stage.lead));
  auto at = [&](Value base, Value row, int64_t width, int64_t offset) {
    return frame.element(base, element,
                         arith::MulIOp::create(b, row, constant(b, width)),
                         offset * width);
  };
  forEachColumns(stage, [&](const Tile &columns) {
    forEachRows(b, constant(b, 0), rows, [&](Value row, int64_t count) {
      SmallVector<Value> inputs, outputs;
      for (int64_t i = 0; i < count; ++i) {
        inputs.push_back(at(input, row, stage.depth, i));
        outputs.push_back(at(output, row, outputsOf(stage), i));
      }
      if (next.products == 0 || !mayAsk(stage))
        return emitProductTile(stage, columns, inputs, outputs);
      EdgesToCome edges = edgesToCome(
          next, arith::AddIOp::create(b, frame.firstRow, row), count);
      emitProductTile(stage, columns, inputs, outputs, [&](Value k) {
        prefetchDuring(stage, next, columns, k, edges);
      });
    });
  });
}

/// All leading features of one row.
void StageEmitter::emitLinear(const Stage &stage, EdgeCursor *cursor) {
  Value input = frame.rowOf(stage.input, cursor);
  Value output = frame.rowOf(stage.places.front(), cursor);
  Type element = stage.places.front().element;
  int64_t width = outputsOf(stage);
  forEachTile(
      b, {stage.lead}, 0, 1, kRowsPerTile, 1, originTile(1), {},
      [&](const Tile &tile, ValueRange) {
        SmallVector<Value> inputs, outputs;
        Value from = frame.element(input, element,
                                   tile.baseOffset(b, {0, {stage.depth}}), 0);
        Value to =
            frame.element(output, element, tile.baseOffset(b, {0, {width}}), 0);
        for (int64_t row = 0; row < tile.size(); ++row) {
          inputs.push_back(
              frame.element(from, element, Value(), row * stage.depth));
          outputs.push_back(frame.element(to, element, Value(), row * width));
        }
        emitProduct(stage, inputs, outputs);
        return Carried();
      });
}

void StageEmitter::emitLinearOverEdges(const Stage &stage,
                                       const EdgeRange &range) {
  if (stage.lead > 1) {
    emitFor(b, range.first, range.last, 1, {}, [&](Value edge, ValueRange) {
      EdgeCursor cursor{edge, {}, {}};
      emitLinear(stage, &cursor);
      return Carried();
    });
    return;
  }
  forEachRows(b, range.first, range.last, [&](Value position, int64_t count) {
    SmallVector<Value> inputs, outputs;
    for (int64_t edge = 0; edge < count; ++edge) {
      EdgeCursor cursor{
          arith::AddIOp::create(b, position, constant(b, edge)), {}, {}};
      inputs.push_back(frame.rowOf(stage.input, &cursor));
      outputs.push_back(frame.rowOf(stage.places.front(), &cursor));
    }
    emitProduct(stage, inputs, outputs);
  });
}
