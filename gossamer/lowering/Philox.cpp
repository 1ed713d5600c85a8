#include "gossamer/lowering/Philox.h"

#include "gossamer/lowering/Combine.h"
#include "gossamer/lowering/Evaluate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::lowering;

static constexpr unsigned kRounds = 10;
static constexpr std::array<uint32_t, 2> kMultipliers = {0xD2511F53,
                                                         0xCD9E8D57};
/// What the key grows by after each round.
static constexpr std::array<uint32_t, 2> kKeySteps = {0x9E3779B9, 0xBB67AE85};

static Value number(ImplicitLocOpBuilder &b, Type type, uint32_t value) {
  return splat(b, type, b.getIntegerAttr(b.getI32Type(), APInt(32, value)));
}

std::array<Value, 2> lowering::halves(ImplicitLocOpBuilder &b, Value number) {
  Value shift = splat(b, number.getType(), b.getI64IntegerAttr(32));
  Value upper = arith::ShRUIOp::create(b, number, shift);
  return {arith::TruncIOp::create(b, b.getI32Type(), number),
          arith::TruncIOp::create(b, b.getI32Type(), upper)};
}

Words lowering::philox(ImplicitLocOpBuilder &b, Words counter, Value seed) {
  Type type = counter.front().getType();
  std::array<Value, 2> key = halves(b, seed);
  auto mix = [&](Value a, Value c, Value k) -> Value {
    return arith::XOrIOp::create(b, arith::XOrIOp::create(b, a, c),
                                 broadcastTo(b, k, lanesOf(type)));
  };
  for (unsigned round = 0; round < kRounds; ++round) {
    auto first = arith::MulUIExtendedOp::create(
        b, counter[0], number(b, type, kMultipliers[0]));
    auto second = arith::MulUIExtendedOp::create(
        b, counter[2], number(b, type, kMultipliers[1]));
    counter = {mix(second.getHigh(), counter[1], key[0]), second.getLow(),
               mix(first.getHigh(), counter[3], key[1]), first.getLow()};
    for (auto [part, step] : llvm::zip(key, kKeySteps))
      part = arith::AddIOp::create(b, part, number(b, part.getType(), step));
  }
  return counter;
}
