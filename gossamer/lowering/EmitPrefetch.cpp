// Rows of other nodes are asked for before they are read.
//
// A sweep waits for memory, and a product of rows for the multipliers. So a
// sweep asks for the rows that it reads some edges later, and a product for
// those that the next sweep reads: of the same rows in the next block, or in
// this one, when its sweep follows:
//
//   for rows of block: { for k: { sums += ...; ask for the rows of an edge } }
//
// Rows go into the second-level cache: the first has too few misses in flight
// for rows from memory. Asking changes no result.

#include "gossamer/lowering/EmitStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

/// The most of one row that is asked for.
static constexpr int64_t kMaxLines = 16;
/// Of rows that products ask for per row that they compute: those of a block
/// stay in the second-level cache.
static constexpr int64_t kBytesPerRow = 8 << 10;

static void prefetch(ImplicitLocOpBuilder &b, KernelFrame &frame, Value row,
                     int64_t bytes) {
  int64_t lines =
      std::min<int64_t>(kMaxLines, llvm::divideCeil(bytes, kCacheLineBytes));
  for (int64_t i = 0; i < lines; ++i)
    LLVM::Prefetch::create(
        b, frame.element(row, b.getI8Type(), Value(), i * kCacheLineBytes),
        /*rw=*/0, /*hint=*/2, /*cache=*/1);
}

/// The rows that the edge `prefetch` positions ahead will read, this tile of
/// them.
void StageEmitter::prefetchAhead(const Expr &expr, const Tile &tile,
                                 const EdgeCursor &cursor) {
  for (const ExprNode &node : expr.nodes) {
    if (node.kind != ExprNode::Kind::Leaf || !node.perEdge ||
        !frame.isGathered(node.value))
      continue;
    SmallVector<int64_t> offsets =
        tile.laneOffsets(node.index, {0, tile.size()});
    auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
    Type element = getElementTypeOrSelf(node.value.getType());
    Value row = frame.element(frame.rowAhead(node.value, cursor), element,
                              tile.baseOffset(b, node.index), *least);
    prefetch(b, frame, row, (*most - *least) * bytesOf(element) + 1);
  }
}

/// The edges that a product of `count` rows from `row` on asks for.
EdgesToCome StageEmitter::edgesToCome(const NextSweep &sweep, Value row,
                                      int64_t count) {
  int64_t most = count * kBytesPerRow / frame.gatheredBytes();
  if (sweep.isOfNextBlock)
    row = arith::AddIOp::create(b, row, constant(b, plan.blockRows));
  return frame.edgesToCome(row, count, most);
}

/// What edges [part, part + size) read, when all of them are `all`.
void StageEmitter::prefetchToCome(const EdgesToCome &edges, Value part,
                                  int64_t size, int64_t all) {
  auto before = [&](Value number) {
    Value product = arith::MulIOp::create(b, edges.count, number);
    return arith::AddIOp::create(
        b, edges.first, arith::DivUIOp::create(b, product, constant(b, all)));
  };
  Value next = arith::AddIOp::create(b, part, constant(b, size));
  emitFor(b, before(part), before(next), 1, {},
          [&](Value position, ValueRange) {
            for (Value leaf : frame.gatheredLeaves()) {
              const Place &place = frame.placeOf(leaf);
              prefetch(b, frame, frame.rowAtPosition(leaf, position),
                       place.width * bytesOf(place.element));
            }
            return Carried();
          });
}
