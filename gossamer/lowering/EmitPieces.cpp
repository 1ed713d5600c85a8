// Rows of very many edges, computed in pieces.
//
// One call reduces the edges of one piece to its own place; when all have, one
// call combines these in the order of the pieces:
//
//   for tile: total = piece 0; for piece 1, 2, ...: total += piece; store total
//
// How a row is cut depends on the graph, never on the threads, so neither do
// the bits of the result. Other calls of a kernel do a whole row at once.

#include "gossamer/lowering/EmitStages.h"

#include "gossamer/lowering/Combine.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

void StageEmitter::emitCombinePieces(const Stage &stage) {
  int64_t lanes = lanesFor(stage.expr, options.vectorBytes);
  auto loadAll = [&](Value piece, const Tile &tile) {
    Carried values;
    for (const Segment &segment : tile.segments(lanes))
      for (auto [place, target] : llvm::zip(stage.places, stage.expr.targets))
        values.push_back(loadSegment(place,
                                     frame.reductionOfPiece(place, piece), tile,
                                     target, segment));
    return values;
  };
  forEachTile(
      b, stage.expr.dims, 0, stage.expr.dims.size(), lanes, lanes,
      originTile(stage.expr.dims.size()), {},
      [&](const Tile &tile, ValueRange) {
        Carried totals = emitFor(
            b, constant(b, 1), frame.pieces, 1, loadAll(constant(b, 0), tile),
            [&](Value piece, ValueRange sums) {
              return combineAll(stage, sums, loadAll(piece, tile));
            });
        size_t next = 0;
        for (const Segment &segment : tile.segments(lanes))
          for (auto [place, target] :
               llvm::zip(stage.places, stage.expr.targets))
            storeSegment(b, frame, totals[next++], frame.rowOf(place, nullptr),
                         tile, target, segment);
        return Carried();
      });
}
