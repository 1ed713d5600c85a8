#include "gossamer/lowering/Draws.h"

#include "gossamer/lowering/Combine.h"
#include "gossamer/lowering/Evaluate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static constexpr int64_t kWords = std::tuple_size_v<Words>;

int64_t lowering::numbersPerCounter(Type element) {
  return element.isF64() ? kWords / 2 : kWords;
}

Draws::Draws(ImplicitLocOpBuilder &builder, mp::UniformOp uniform, Value key,
             int64_t lanes)
    : b(builder), element(getElementTypeOrSelf(uniform.getType())),
      stream(uniform.getStream()), seed(key), maxLanes(lanes) {}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static Value integer(ImplicitLocOpBuilder &b, Type like, int64_t value) {
  Type type = getElementTypeOrSelf(like);
  APInt bits(type.getIntOrFloatBitWidth(), value, /*isSigned=*/true);
  return splat(b, like, b.getIntegerAttr(type, bits));
}

static Value shiftRight(ImplicitLocOpBuilder &b, Value value, int64_t bits) {
  return arith::ShRUIOp::create(b, value, integer(b, value.getType(), bits));
}

/// The lower 32 bits of i64 lanes.
static Value lowerHalf(ImplicitLocOpBuilder &b, Value value) {
  Type type = vectorOf(b.getI32Type(), lanesOf(value.getType()));
  return arith::TruncIOp::create(b, type, value);
}

static Value vectorFrom(ImplicitLocOpBuilder &b, ArrayRef<Value> lanes) {
  if (lanes.size() == 1)
    return lanes.front();
  if (llvm::all_equal(lanes))
    return broadcastTo(b, lanes.front(), lanes.size());
  return vector::FromElementsOp::create(
      b, vectorOf(lanes.front().getType(), lanes.size()), lanes);
}

/// a0 b0 a1 b1 ...
static Value interleave(ImplicitLocOpBuilder &b, Value left, Value right) {
  if (!isa<VectorType>(left.getType()))
    return vectorFrom(b, {left, right});
  int64_t lanes = lanesOf(left.getType());
  SmallVector<int64_t> picks;
  for (int64_t lane = 0; lane < lanes; ++lane)
    llvm::append_values(picks, lane, lanes + lane);
  return vector::ShuffleOp::create(b, left, right, picks);
}

/// Every second lane, from `first` on.
static Value everySecond(ImplicitLocOpBuilder &b, Value vector, int64_t first) {
  SmallVector<int64_t> picks;
  for (int64_t lane = first; lane < lanesOf(vector.getType()); lane += 2)
    picks.push_back(lane);
  return vector::ShuffleOp::create(b, vector, vector, picks);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// The upper 24 bits of each word as f32.
Value Draws::toNumbers(Value words) {
  Type type = vectorOf(element, lanesOf(words.getType()));
  Value bits = arith::SIToFPOp::create(b, type, shiftRight(b, words, 8));
  return arith::MulFOp::create(
      b, bits, splat(b, type, b.getFloatAttr(element, 0x1p-24)));
}

/// 53 bits as f64, of which `word` is the upper 32. Both terms, and their sum,
/// are exact.
Value Draws::toNumbers(Value word, Value next) {
  Type type = vectorOf(element, lanesOf(word.getType()));
  auto scaled = [&](Value bits, double unit) -> Value {
    return arith::MulFOp::create(b, bits,
                                 splat(b, type, b.getFloatAttr(element, unit)));
  };
  Value upper = arith::UIToFPOp::create(b, type, word);
  Value lower = arith::SIToFPOp::create(b, type, shiftRight(b, next, 11));
  return arith::AddFOp::create(b, scaled(upper, 0x1p-32),
                               scaled(lower, 0x1p-53));
}

Words Draws::words(Value position, Value lower, Value upper) {
  Type type = position.getType();
  return philox(b, {position, lower, upper, integer(b, type, stream)}, seed);
}

/// All numbers of `counters`, in order.
Value Draws::numbersOf(ValueRange rows, Value base,
                       ArrayRef<Counter> counters) {
  SmallVector<Value> lower, upper;
  SmallVector<int32_t> positions;
  for (auto [row, position] : counters) {
    auto [low, high] = halves(b, rows[row]);
    lower.push_back(low);
    upper.push_back(high);
    positions.push_back(position);
  }
  int64_t lanes = counters.size();
  Type type = vectorOf(b.getI32Type(), lanes);
  Value position = lanes == 1
                       ? integer(b, type, positions.front())
                       : arith::ConstantOp::create(
                             b, DenseElementsAttr::get(cast<VectorType>(type),
                                                       ArrayRef(positions)))
                             .getResult();
  if (base) {
    Value first = arith::DivUIOp::create(
        b, lowerHalf(b, base),
        integer(b, b.getI32Type(), numbersPerCounter(element)));
    position = arith::AddIOp::create(b, position, broadcastTo(b, first, lanes));
  }
  Words w = words(position, vectorFrom(b, lower), vectorFrom(b, upper));
  Value all =
      interleave(b, interleave(b, w[0], w[2]), interleave(b, w[1], w[3]));
  if (element.isF32())
    return toNumbers(all);
  return toNumbers(everySecond(b, all, 0), everySecond(b, all, 1));
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Lanes `picks` of `parts`, which all have `size` lanes, as if they were one
/// vector.
static Value pick(ImplicitLocOpBuilder &b, ArrayRef<Value> parts, int64_t size,
                  ArrayRef<int64_t> picks) {
  auto [least, most] = std::minmax_element(picks.begin(), picks.end());
  int64_t first = *least / size, last = *most / size;
  if (picks.size() == 1)
    return vector::ExtractOp::create(b, parts[first], picks.front() % size);
  if (last - first <= 1) {
    SmallVector<int64_t> within;
    for (int64_t place : picks)
      within.push_back(place - first * size);
    return vector::ShuffleOp::create(b, parts[first], parts[last], within);
  }
  SmallVector<Value> lanes;
  for (int64_t place : picks)
    lanes.push_back(
        vector::ExtractOp::create(b, parts[place / size], place % size));
  return vectorFrom(b, lanes);
}

SmallVector<Value> Draws::at(ValueRange rows, Value base,
                             ArrayRef<SmallVector<Place>> vectors) {
  int64_t each = numbersPerCounter(element);
  llvm::MapVector<Counter, int64_t> known;
  for (ArrayRef<Place> vector : vectors)
    for (Place place : vector)
      known.try_emplace({place.row, place.element / each}, known.size());
  SmallVector<Counter> counters(llvm::make_first_range(known));
  // Lanes without a counter of their own repeat one.
  int64_t count = counters.size();
  int64_t lanes = std::min<int64_t>(
      maxLanes, llvm::PowerOf2Ceil(std::max<int64_t>(count, 1)));
  counters.resize(llvm::alignTo(count, lanes), counters.back());
  SmallVector<Value> parts;
  for (size_t first = 0; first < counters.size(); first += lanes)
    parts.push_back(
        numbersOf(rows, base, ArrayRef(counters).slice(first, lanes)));
  SmallVector<Value> results;
  for (ArrayRef<Place> vector : vectors) {
    SmallVector<int64_t> picks;
    for (Place place : vector)
      picks.push_back(known.lookup({place.row, place.element / each}) * each +
                      place.element % each);
    results.push_back(pick(b, parts, lanes * each, picks));
  }
  return results;
}

Value Draws::atElements(Value row, Value elements) {
  int64_t each = numbersPerCounter(element);
  Value number = lowerHalf(b, elements);
  Type type = number.getType();
  int64_t lanes = lanesOf(type);
  auto everywhere = [&](Value half) { return broadcastTo(b, half, lanes); };
  auto [low, high] = halves(b, row);
  Words w = words(shiftRight(b, number, llvm::Log2_64(each)), everywhere(low),
                  everywhere(high));
  auto choose = [&](int64_t bit, Value one, Value zero) -> Value {
    Value mask = integer(b, type, bit);
    Value isSet =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                              arith::AndIOp::create(b, number, mask), mask);
    return arith::SelectOp::create(b, isSet, one, zero);
  };
  if (element.isF64())
    return toNumbers(choose(1, w[2], w[0]), choose(1, w[3], w[1]));
  return toNumbers(choose(2, choose(1, w[3], w[2]), choose(1, w[1], w[0])));
}
