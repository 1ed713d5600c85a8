// Sums over all rows of a kernel, and outer products summed over all edges.
//
// A sum adds rows to a run in scratch, and runs of kRowsPerRun rows to its
// table:
//
//   for run: { for row: { ...; sum += value }; table += sum; sum = 0 }
//
// A sum by number adds each row, or edge, to the row of the run that has its
// number. A run of many numbers would cost more than the rows it takes: there
// rows are added to the table itself.
//
// An outer product of one edge or row would touch all of its table. So factors
// wait in scratch, and kWaitingPairs of them become one product of small
// matrices, tile by tile in registers:
//
//   for edge: { left[n] = l; right[n] = r; n += 1;
//               if full: { table += transpose(left) * right; n = 0 } }
//
// A sum by number of outer products has a table, and a queue of factors, for
// each number.
//
// Either way a running sum in float has few terms beside the number of rows.
// The caller hands every few thousand rows and edges a table of their own and
// adds those (runtime/PartialSums.h).

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

/// Rows of a tile of an outer product.
static constexpr int64_t kRowsPerTile = 4;

static constexpr mp::ReduceKind kSum = mp::ReduceKind::Sum;

static int64_t fullLanes(const Place &place, const KernelOptions &options) {
  return options.vectorBytes / bytesOf(place.element);
}

/// Where it is how many edges or rows wait in a queue.
static Value queueOf(KernelFrame &frame, const Total &total, Value number) {
  return frame.element(frame.rowOf(total.waiting, nullptr),
                       total.waiting.element, number, 0);
}

/// The place of its first factors, of those of all queues.
static Value startOfQueue(ImplicitLocOpBuilder &b, const Total &total,
                          Value number) {
  return arith::MulIOp::create(b, number, constant(b, total.maxWaiting));
}

static void forEachQueue(ImplicitLocOpBuilder &b, const Total &total,
                         function_ref<void(Value number)> body) {
  if (total.numbers == 1)
    return body(constant(b, 0));
  emitFor(b, constant(b, 0), constant(b, total.numbers), 1, {},
          [&](Value number, ValueRange) {
            body(number);
            return Carried();
          });
}

void StageEmitter::emitEmpty(const Total &total) {
  if (total.isOuter) {
    forEachQueue(b, total, [&](Value number) {
      frame.store(constant(b, 0), queueOf(frame, total, number));
    });
    return;
  }
  if (!total.inRuns) // the caller cleared the table
    return;
  LinearForm along{0, {1}};
  int64_t lanes = fullLanes(total.run, options);
  forEachTile(b, {total.run.width}, 0, 1, lanes, lanes, originTile(1), {},
              [&](const Tile &tile, ValueRange) {
                for (const Segment &segment : tile.segments(lanes))
                  storeSegment(
                      b, frame,
                      zero(b, vectorOf(total.run.element, segment.lanes)),
                      frame.rowOf(total.run, nullptr), tile, along, segment);
                return Carried();
              });
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Of one edge, or of the row.
void StageEmitter::emitSumRows(const Stage &stage, EdgeCursor *cursor) {
  const Expr &expr = stage.expr;
  const Place &run = plan.totals[stage.total].run;
  Value sums = frame.rowOf(run, nullptr);
  if (stage.by)
    sums = frame.rowNumbered(sums, *stage.by, run.element,
                             run.width / stage.by->count, cursor);
  int64_t lanes = lanesFor(expr, options.vectorBytes);
  forEachTile(
      b, expr.dims, 0, expr.dims.size(), lanes, lanes,
      originTile(expr.dims.size()), {}, [&](const Tile &tile, ValueRange) {
        SmallVector<Segment> segments = tile.segments(lanes);
        if (cursor)
          prefetchAhead(expr, tile, *cursor);
        Evaluator values(b, frame, expr, tile, segments);
        for (auto [segment, value] : llvm::zip(segments, values.at(cursor))) {
          const LinearForm &target = expr.targets.front();
          Value sum = loadSegment(run, sums, tile, target, segment);
          storeSegment(b, frame, combine(b, kSum, sum, value), sums, tile,
                       target, segment);
        }
        return Carried();
      });
}

void StageEmitter::emitAddRun(const Total &total) {
  LinearForm along{0, {1}};
  int64_t lanes = fullLanes(total.run, options);
  forEachTile(
      b, {total.run.width}, 0, 1, lanes, lanes, originTile(1), {},
      [&](const Tile &tile, ValueRange) {
        for (const Segment &segment : tile.segments(lanes)) {
          Value sum =
              loadSegment(total.table, frame.rowOf(total.table, nullptr), tile,
                          along, segment);
          Value run = loadSegment(total.run, frame.rowOf(total.run, nullptr),
                                  tile, along, segment);
          storeSegment(b, frame, combine(b, kSum, sum, run),
                       frame.rowOf(total.table, nullptr), tile, along, segment);
          storeSegment(b, frame, zero(b, run.getType()),
                       frame.rowOf(total.run, nullptr), tile, along, segment);
        }
        return Carried();
      });
}

//===----------------------------------------------------------------------===//
// Outer products
//===----------------------------------------------------------------------===//

/// Of one edge, or of the row.
void StageEmitter::emitOuter(const Stage &stage, EdgeCursor *cursor) {
  const Total &total = plan.totals[stage.total];
  Value number = stage.by ? frame.numberOf(*stage.by, cursor) : constant(b, 0);
  Value counter = queueOf(frame, total, number);
  Value before = frame.load(counter, total.waiting.element, 1);
  frame.waiting =
      arith::AddIOp::create(b, startOfQueue(b, total, number), before);
  emitMap(stage.expr, total.left, cursor);
  emitMap(stage.right, total.right, cursor);
  Value count = arith::AddIOp::create(b, before, constant(b, 1));
  Value most = constant(b, total.maxWaiting);
  Value full = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, count, most);
  auto branch = scf::IfOp::create(b, full, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    emitOuterProduct(total, number, most);
  }
  frame.store(arith::SelectOp::create(b, full, constant(b, 0), count), counter);
}

void StageEmitter::emitAddWaiting(const Total &total) {
  forEachQueue(b, total, [&](Value number) { emitAddQueue(total, number); });
}

void StageEmitter::emitAddQueue(const Total &total, Value number) {
  Value edges =
      frame.load(queueOf(frame, total, number), total.waiting.element, 1);
  Value any =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne, edges, constant(b, 0));
  auto branch = scf::IfOp::create(b, any, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitOuterProduct(total, number, edges);
}

/// Adds the outer products of the first `edges` edges or rows in a queue.
void StageEmitter::emitOuterProduct(const Total &total, Value number,
                                    Value edges) {
  int64_t width = total.columns();
  int64_t lanes = fullLanes(total.table, options);
  int64_t rows = std::min(kRowsPerTile, total.depth);
  int64_t vectors = std::max<int64_t>(1, options.accumulators / rows);
  forEachTile(b, {total.depth, width}, 0, 1, rows, 1, originTile(2), {},
              [&](const Tile &outer, ValueRange) {
                forEachTile(b, {total.depth, width}, 1, 2, vectors * lanes,
                            lanes, outer, {},
                            [&](const Tile &tile, ValueRange) {
                              addOuterTile(total, number, edges, tile);
                              return Carried();
                            });
                return Carried();
              });
}

/// table[number, k, o] += sum over pairs of left[k] * right[o], for one tile of
/// k and o.
void StageEmitter::addOuterTile(const Total &total, Value number, Value edges,
                                const Tile &tile) {
  Type element = total.table.element;
  int64_t width = total.columns();
  Tile columns = tile;
  columns.shape[0] = 1;
  SmallVector<Segment> segments =
      columns.segments(fullLanes(total.table, options));
  frame.waiting = startOfQueue(b, total, number);
  Value left =
      frame.element(frame.rowOf(total.left, nullptr), element, tile.base[0], 0);
  Value right = frame.element(frame.rowOf(total.right, nullptr), element,
                              tile.base[1], 0);
  Carried start;
  for (int64_t row = 0; row < tile.shape[0]; ++row)
    for (const Segment &segment : segments)
      start.push_back(zero(b, vectorOf(element, segment.lanes)));
  Value pairs = arith::MulIOp::create(b, edges, constant(b, total.pairs));
  Carried sums = emitFor(
      b, constant(b, 0), pairs, 1, start, [&](Value pair, ValueRange carried) {
        auto at = [&](Value base, int64_t stride, int64_t offset) {
          return frame.element(
              base, element,
              arith::MulIOp::create(b, pair, constant(b, stride)), offset);
        };
        SmallVector<Value> rights;
        for (const Segment &segment : segments)
          rights.push_back(frame.load(at(right, width, segment.start), element,
                                      segment.lanes));
        Carried next;
        for (int64_t row = 0; row < tile.shape[0]; ++row) {
          Value factor = frame.load(at(left, total.depth, row), element, 1);
          for (Value r : rights) {
            Value f = broadcastTo(b, factor, lanesOf(r.getType()));
            next.push_back(
                combine(b, kSum, carried[next.size()], multiply(b, f, r)));
          }
        }
        return next;
      });
  LinearForm inTable{0, {width, 1}};
  Value matrix = frame.element(
      frame.rowOf(total.table, nullptr), element,
      arith::MulIOp::create(b, number, constant(b, total.depth * width)), 0);
  Value table = frame.element(matrix, element, tile.baseOffset(b, inTable), 0);
  for (auto [index, sum] : llvm::enumerate(sums)) {
    int64_t row = index / segments.size();
    const Segment &segment = segments[index % segments.size()];
    Value place =
        frame.element(table, element, Value(), row * width + segment.start);
    frame.store(
        combine(b, kSum, frame.load(place, element, segment.lanes), sum),
        place);
  }
}
