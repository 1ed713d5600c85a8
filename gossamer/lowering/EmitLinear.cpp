// Small matrix products inside a kernel: rows of a table or buffer times a
// weight without rows.
//
// A tile is a few rows times a few vectors of outputs, all in registers; the
// loop over k broadcasts one input per row.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static constexpr int64_t kRowsPerTile = 4;

/// outputs[r][o] = sum_k inputs[r][k] * weight[k][o].
void StageEmitter::emitProduct(const Stage &stage, ArrayRef<Value> inputs,
                               ArrayRef<Value> outputs) {
  Type element = stage.places.front().element;
  int64_t depth = stage.depth, width = stage.places.front().width / stage.lead;
  int64_t lanes = options.vectorBytes / std::max<int64_t>(4, bytesOf(element));
  int64_t perTile =
      std::max<int64_t>(1, options.accumulators / kRowsPerTile) * lanes;
  Value weight = frame.rowOf(stage.weight, nullptr);
  LinearForm along{0, {1}};
  forEachTile(
      b, {width}, 0, 1, perTile, lanes, originTile(1), {},
      [&](const Tile &tile, ValueRange) {
        SmallVector<Segment> segments = tile.segments(lanes);
        Value column =
            frame.element(weight, element, tile.baseOffset(b, along), 0);
        Carried start;
        for (size_t row = 0; row < inputs.size(); ++row)
          for (const Segment &segment : segments)
            start.push_back(zero(b, vectorOf(element, segment.lanes)));
        Carried sums = emitFor(
            b, constant(b, 0), constant(b, depth), 1, start,
            [&](Value k, ValueRange carried) {
              Value row = frame.element(
                  column, element,
                  arith::MulIOp::create(b, k, constant(b, width)), 0);
              SmallVector<Value> weights;
              for (const Segment &segment : segments)
                weights.push_back(frame.load(
                    frame.element(row, element, Value(), segment.start),
                    element, segment.lanes));
              Carried next;
              for (Value input : inputs) {
                Value x =
                    frame.load(frame.element(input, element, k, 0), element, 1);
                for (Value w : weights)
                  next.push_back(combine(
                      b, mp::ReduceKind::Sum, carried[next.size()],
                      multiply(b, broadcastTo(b, x, lanesOf(w.getType())), w)));
              }
              return next;
            });
        for (auto [index, sum] : llvm::enumerate(sums))
          storeSegment(b, frame, sum, outputs[index / segments.size()], tile,
                       along, segments[index % segments.size()]);
        return Carried();
      });
}

/// All leading features of one row.
void StageEmitter::emitLinear(const Stage &stage, EdgeCursor *cursor) {
  Value input = frame.rowOf(stage.input, cursor);
  Value output = frame.rowOf(stage.places.front(), cursor);
  Type element = stage.places.front().element;
  int64_t width = stage.places.front().width / stage.lead;
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
  auto emitEdges = [&](Value position, int64_t count) {
    SmallVector<Value> inputs, outputs;
    for (int64_t edge = 0; edge < count; ++edge) {
      EdgeCursor cursor{
          arith::AddIOp::create(b, position, constant(b, edge)), {}, {}};
      inputs.push_back(frame.rowOf(stage.input, &cursor));
      outputs.push_back(frame.rowOf(stage.places.front(), &cursor));
    }
    emitProduct(stage, inputs, outputs);
    return Carried();
  };
  if (stage.lead > 1) {
    emitFor(b, range.first, range.last, 1, {}, [&](Value edge, ValueRange) {
      EdgeCursor cursor{edge, {}, {}};
      emitLinear(stage, &cursor);
      return Carried();
    });
    return;
  }
  Value count = arith::SubIOp::create(b, range.last, range.first);
  Value rest = arith::AndIOp::create(b, count, constant(b, kRowsPerTile - 1));
  Value whole = arith::SubIOp::create(b, range.last, rest);
  emitFor(b, range.first, whole, kRowsPerTile, {}, [&](Value edge, ValueRange) {
    return emitEdges(edge, kRowsPerTile);
  });
  emitFor(b, whole, range.last, 1, {},
          [&](Value edge, ValueRange) { return emitEdges(edge, 1); });
}
