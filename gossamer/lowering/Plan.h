// The order of work of one kernel, and where its values are.
//
// For each row the kernel runs phases 0, 1, ...: first the row stages of the
// phase, then its sweep, the edge stages over the row's edges. An edge value
// that depends on a finished reduction belongs to a later sweep. A stage is one
// loop nest (Expr.h); values that cross from one stage to another are in
// memory, all others in registers.
//
// A product of rows of nodes takes several rows at a time. In a kernel that has
// one, rows go in blocks: each stage before the product runs for the whole
// block, then the product, then what follows it; slots hold a block of rows.
//
// Totals, sums over all rows, are added to tables that the caller clears. Rows
// are first summed in runs of kRowsPerRun, or more where the sum by number has
// more rows than that, and not at all where it is large. The factors of outer
// products wait in scratch until kWaitingPairs of them, of any rows or their
// edges, are one product of two small matrices; in a sum by number, each number
// has such a queue.
#ifndef GOSSAMER_LOWERING_PLAN_H
#define GOSSAMER_LOWERING_PLAN_H

#include "gossamer/ir/MpDialect.h"
#include "gossamer/lowering/Expr.h"

#include "llvm/ADT/DenseMap.h"

namespace gossamer::lowering {

/// Bytes after a buffer that a vector at its end may touch.
inline constexpr int64_t kBufferPadding = 128;
inline constexpr int64_t kCacheLineBytes = 64;
/// The least rows whose sum is added to a total; a multiple of every size of a
/// block.
inline constexpr int64_t kRowsPerRun = 64;

/// How often a value differs within a kernel: never, per row, per edge.
enum class Level { Shared, Row, Edge };

/// Where a value is in memory.
struct Place {
  enum class Kind {
    Table,       // operand or result number `table` of the kernel
    Slot,        // scratch, one row, or each row of the block
    RowBuffer,   // scratch, for each edge of the row
    BlockBuffer, // scratch, for each edge of the block
    Waiting,     // scratch, for each edge or row that waits for its outer
                 // product
  };
  Kind kind = Kind::Slot;
  Level level = Level::Shared;
  unsigned table = 0;
  int64_t offset = 0;     // bytes from scratch; RowBuffer: fixed part
  int64_t perDegree = 0;  // RowBuffer: plus this times maxDegree
  int64_t width = 1;      // elements per row
  bool writeOnly = false; // Table: the kernel writes it once and never reads it
  int64_t partial = 0;    // of a reduction: bytes from those of a piece
  mlir::Type element;
};

/// Which row of a table of `count` rows each row or edge means: that of its
/// number in the table `index`.
struct Numbering {
  mlir::Value index;
  int64_t count = 0;
  bool fromEnd = false; // negative numbers count from the end
};

struct Stage {
  enum class Kind {
    Map,      // store the results of expr
    Reduce,   // combine them over the edges of the row
    Contract, // combine them along one axis
    Linear,   // multiply rows of `input` by `weight`
    SumRows,  // add the result of expr to the sum of the run, or to its row
              // that `by` says
    Outer,    // let expr and `right` wait for their outer product
  };
  Kind kind = Kind::Map;
  Level level = Level::Row;
  Expr expr;
  llvm::SmallVector<Place, 2> places;         // of each result
  llvm::SmallVector<mp::ReduceKind, 2> kinds; // Reduce, Contract
  unsigned axis = 0;                          // Contract
  mlir::Value input, weight;                  // Linear
  int64_t lead = 1, depth = 1; // Linear: rows per row, inputs per output
  Expr right;                  // Outer
  std::optional<Numbering> by; // SumRows, Outer
  unsigned total = 0;          // SumRows, Outer: index into Plan::totals
  bool expensive = false;      // worth computing for several edges at once
  mlir::Location location;

  explicit Stage(mlir::Location from) : location(from) {}
};

/// A total: its table, and what is not in it yet.
struct Total {
  bool isOuter = false;
  bool inRuns = false; // sum: rows are first summed in runs
  Place table;
  Place run;           // sum: of the current run of rows, or the table
  Place left, right;   // outer product: factors of the edges or rows that wait
  Place waiting;       // outer product: how many do, of each number
  int64_t numbers = 1; // outer product: matrices of the table, and queues
  int64_t pairs = 1;   // outer products per edge or row
  int64_t depth = 1;   // elements of a left factor
  int64_t maxWaiting = 1; // of each number

  /// Elements of a right factor.
  int64_t columns() const { return right.width / pairs; }
};

struct Phase {
  llvm::SmallVector<Stage, 2> rowStages;
  llvm::SmallVector<Stage, 4> edgeStages;
  /// The sweep has buffers of block size, so all its stages run per block.
  bool blocked = false;
};

struct Plan {
  llvm::SmallVector<Stage, 2> sharedStages; // once per call of the kernel
  llvm::SmallVector<Phase, 4> phases;
  llvm::SmallVector<Total, 2> totals;
  llvm::DenseMap<mlir::Operation *, unsigned> totalOf; // index into totals
  llvm::DenseMap<mlir::Value, Place> places;
  int64_t rowWork = 1; // of a row without edges; an edge is 1
  int64_t scratchBytes = 0;
  int64_t scratchBytesPerDegree = 0;
  int64_t runRows = kRowsPerRun; // rows whose sum is added to a total
  int64_t blockRows = 1;         // rows that go together
  int64_t blockEdges = 0;
  bool usesEdges = false;
  /// Whether a row can be computed in pieces, and the bytes of the reductions
  /// of one. Edges add to totals in an order that pieces would not keep.
  bool splitsRows = false;
  int64_t partialBytes = 0;
};

/// Edge values of at most this many elements are kept for a whole row.
inline constexpr int64_t kNarrow = 16;
/// Sums are combined per block of this many edges, or fewer.
inline constexpr int64_t kMaxBlockEdges = 256;
/// Most rows of a block.
inline constexpr int64_t kMaxBlockRows = 64;
/// Outer products that are added to a total together.
inline constexpr int64_t kWaitingPairs = 32;

/// True for ops that cost much more than an addition.
bool isExpensive(mlir::Operation *op);

/// True for ops that are a loop nest of their own.
bool needsOwnStage(mlir::Operation *op);

/// A sum over all rows that the kernel visits; false for null.
bool isTotal(mlir::Operation *op);

/// How a lookup, or a sum by number, numbers the rows of its table.
Numbering numberingOf(mlir::Operation *op);

/// The value whose memory holds `value` in the same row-major order, seen
/// through reshapes.
mlir::Value throughReshapes(mlir::Value value);

int64_t bytesOf(mlir::Type element);

/// Plans `kernel`; an error is reported at the op that has no lowering.
mlir::FailureOr<Plan> planKernel(mp::KernelOp kernel);

} // namespace gossamer::lowering

#endif
