// The numbers of one mp.uniform: which word of which counter each element is,
// and vectors of them.
//
// One counter gives numbers to several elements of a row, so counters are
// computed once for all elements that are wanted together, as many in a vector
// as it has lanes, and their words are then shuffled into place.
#ifndef GOSSAMER_LOWERING_DRAWS_H
#define GOSSAMER_LOWERING_DRAWS_H

#include "gossamer/ir/MpDialect.h"
#include "gossamer/lowering/Philox.h"

#include "llvm/ADT/MapVector.h"

namespace gossamer::lowering {

/// How many numbers of type `element` one counter gives.
int64_t numbersPerCounter(mlir::Type element);

class Draws {
public:
  /// `seed` is a scalar. Vectors of counters have `lanes` lanes at most.
  Draws(mlir::ImplicitLocOpBuilder &builder, mp::UniformOp uniform,
        mlir::Value key, int64_t lanes);

  /// An element of one of several rows, from some base on.
  struct Place {
    unsigned row;
    int64_t element;
  };

  /// One vector for each list of places: a scalar for one place. `rows` are
  /// numbers of rows, i64. `base` is an i64 divisible by numbersPerCounter,
  /// null for 0.
  llvm::SmallVector<mlir::Value>
  at(mlir::ValueRange rows, mlir::Value base,
     llvm::ArrayRef<llvm::SmallVector<Place>> vectors);

  /// The numbers of `elements`, i64 in each lane, of one row.
  mlir::Value atElements(mlir::Value row, mlir::Value elements);

private:
  using Counter = std::pair<unsigned, int64_t>; // row, position in the row
  mlir::Value numbersOf(mlir::ValueRange rows, mlir::Value base,
                        llvm::ArrayRef<Counter> counters);
  Words words(mlir::Value position, mlir::Value lower, mlir::Value upper);
  mlir::Value toNumbers(mlir::Value words);
  mlir::Value toNumbers(mlir::Value word, mlir::Value next);

  mlir::ImplicitLocOpBuilder &b;
  mlir::Type element;
  uint32_t stream;
  mlir::Value seed;
  int64_t maxLanes;
};

} // namespace gossamer::lowering

#endif
