#include "gossamer/lowering/Tiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace gossamer::lowering;

int64_t Tile::size() const {
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  return size;
}

SmallVector<Segment> Tile::segments(int64_t lanes, bool mayIdle) const {
  SmallVector<Segment> result;
  int64_t total = size();
  for (int64_t start = 0; start < total; start += lanes) {
    int64_t rest = total - start;
    if (lanes > rest)
      lanes = mayIdle ? llvm::PowerOf2Ceil(rest)
                      : llvm::bit_floor(static_cast<uint64_t>(rest));
    result.push_back({start, lanes, std::max<int64_t>(0, lanes - rest)});
  }
  return result;
}

SmallVector<int64_t> Tile::laneOffsets(const LinearForm &form,
                                       Segment segment) const {
  SmallVector<int64_t> offsets;
  for (int64_t lane = 0; lane < segment.lanes; ++lane) {
    int64_t rest = segment.start + lane, offset = form.offset;
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      offset += rest % shape[dim] * form.coefficients[dim];
    offsets.push_back(offset);
  }
  return offsets;
}

Value Tile::baseOffset(ImplicitLocOpBuilder &b, const LinearForm &form) const {
  Value sum;
  for (auto [index, coefficient] : llvm::zip(base, form.coefficients)) {
    if (!index || coefficient == 0)
      continue;
    Value term = index;
    if (coefficient != 1)
      term = arith::MulIOp::create(b, index, constant(b, coefficient));
    sum = sum ? arith::AddIOp::create(b, sum, term).getResult() : term;
  }
  return sum;
}

int64_t Tile::divisorOfBase(const LinearForm &form) const {
  int64_t divisor = 0;
  for (auto [index, step, coefficient] :
       llvm::zip(base, steps, form.coefficients))
    if (index)
      divisor = std::gcd(divisor, step * coefficient);
  return divisor;
}

Tile gossamer::lowering::originTile(size_t dims) {
  return {SmallVector<Value, 4>(dims), SmallVector<int64_t, 4>(dims, 1),
          SmallVector<int64_t, 4>(dims, 1)};
}

Value gossamer::lowering::constant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

Carried
gossamer::lowering::emitFor(ImplicitLocOpBuilder &b, Value begin, Value end,
                            int64_t step, ValueRange init,
                            function_ref<Carried(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, begin, end, constant(b, step), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Carried next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(b, next);
  return Carried(loop.getResults());
}

namespace {

/// The recursion of forEachTile over the dims that are loops.
struct TileLoops {
  ImplicitLocOpBuilder &b;
  ArrayRef<int64_t> dims;
  unsigned chunked; // the dim cut into chunks; dims after it are unrolled
  int64_t chunk;
  function_ref<Carried(const Tile &, ValueRange)> body;

  Carried emit(unsigned dim, Tile tile, ValueRange carried) const {
    if (dim == chunked)
      return emitChunks(std::move(tile), carried);
    return emitFor(b, constant(b, 0), constant(b, dims[dim]), 1, carried,
                   [&](Value index, ValueRange inner) {
                     Tile next = tile;
                     next.base[dim] = index;
                     return emit(dim + 1, std::move(next), inner);
                   });
  }

  Carried emitChunks(Tile tile, ValueRange carried) const {
    int64_t whole = dims[chunked] / chunk * chunk;
    int64_t rest = dims[chunked] - whole;
    auto at = [&](Value index, int64_t extent) {
      Tile next = tile;
      next.base[chunked] = index;
      next.shape[chunked] = extent;
      next.steps[chunked] = chunk;
      return next;
    };
    Carried values(carried);
    if (whole == chunk)
      values = body(at(Value(), chunk), values);
    else if (whole > 0)
      values = emitFor(b, constant(b, 0), constant(b, whole), chunk, values,
                       [&](Value index, ValueRange inner) {
                         return body(at(index, chunk), inner);
                       });
    if (rest > 0)
      values = body(at(whole ? constant(b, whole) : Value(), rest), values);
    return values;
  }
};

} // namespace

Carried gossamer::lowering::forEachTile(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> dims, unsigned first,
    unsigned last, int64_t capacity, int64_t lanes, Tile outer, Carried carried,
    function_ref<Carried(const Tile &, ValueRange)> body) {
  unsigned unrolled = last;
  int64_t size = 1;
  while (unrolled > first && size * dims[unrolled - 1] <= capacity)
    size *= dims[--unrolled];
  for (unsigned dim = unrolled; dim < last; ++dim)
    outer.shape[dim] = dims[dim];
  if (unrolled == first)
    return body(outer, carried);
  unsigned chunked = unrolled - 1;
  // Even chunks, so that few of them are a remainder.
  int64_t chunks =
      llvm::divideCeil(dims[chunked], std::max<int64_t>(1, capacity / size));
  int64_t chunk = llvm::divideCeil(dims[chunked], chunks);
  if (size == 1)
    chunk = std::min<int64_t>(llvm::alignTo(chunk, lanes), dims[chunked]);
  TileLoops loops{b, dims, chunked, chunk, body};
  return loops.emit(first, std::move(outer), carried);
}
