#include "gossamer/runtime/StorageTypes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace gossamer;

namespace {

float widened(DType dtype, uint16_t bits) {
  float value = 99;
  widen(dtype, &bits, 1, 1, &value);
  return value;
}

uint16_t narrowed(DType dtype, float value) {
  uint16_t bits = 99;
  narrow(dtype, &value, 1, &bits);
  return bits;
}

/// The value by its definition: sign, exponent and fraction.
double valueOf(DType dtype, uint16_t bits) {
  int fraction = dtype == DType::BF16 ? 7 : 10;
  int bias = dtype == DType::BF16 ? 127 : 15;
  int exponent = (bits & 0x7FFF) >> fraction;
  int rest = bits & ((1 << fraction) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (0x7FFF >> fraction))
    return rest ? std::nan("") : sign * INFINITY;
  int scale = std::max(exponent, 1) - bias - fraction;
  return sign * std::ldexp(rest + (exponent ? 1 << fraction : 0), scale);
}

class StorageTypes : public testing::TestWithParam<DType> {};

TEST_P(StorageTypes, EveryNumberWidensExactlyAndComesBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    float wide = widened(GetParam(), uint16_t(bits));
    double exact = valueOf(GetParam(), uint16_t(bits));
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(widened(GetParam(), narrowed(GetParam(), wide))));
      continue;
    }
    ASSERT_EQ(wide, exact) << bits;
    ASSERT_EQ(std::signbit(wide), std::signbit(exact)) << bits;
    ASSERT_EQ(narrowed(GetParam(), wide), bits);
  }
}

/// Between two neighbours the nearer one is chosen, and the even one halfway.
TEST_P(StorageTypes, RoundsToNearestEven) {
  int infinity = GetParam() == DType::BF16 ? 0x7F80 : 0x7C00;
  for (int low = 0; low + 1 < infinity; ++low) {
    float a = widened(GetParam(), uint16_t(low));
    float b = widened(GetParam(), uint16_t(low + 1));
    float middle = float((double(a) + double(b)) / 2);
    ASSERT_EQ(narrowed(GetParam(), middle), low + (low & 1)) << low;
    ASSERT_EQ(narrowed(GetParam(), std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(narrowed(GetParam(), std::nextafter(middle, INFINITY)), low + 1);
    ASSERT_EQ(narrowed(GetParam(), -middle), 0x8000 + low + (low & 1));
  }
}

TEST_P(StorageTypes, BeyondTheLargest) {
  int infinity = GetParam() == DType::BF16 ? 0x7F80 : 0x7C00;
  EXPECT_EQ(narrowed(GetParam(), INFINITY), infinity);
  EXPECT_EQ(narrowed(GetParam(), std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(narrowed(GetParam(), -INFINITY), 0x8000 + infinity);
}

TEST_P(StorageTypes, Strided) {
  std::vector<uint16_t> from = {narrowed(GetParam(), 1), 0,
                                narrowed(GetParam(), -2), 0};
  std::vector<float> to(2, 99);
  widen(GetParam(), from.data(), 2, 2, to.data());
  EXPECT_EQ(to, (std::vector<float>{1, -2}));
}

INSTANTIATE_TEST_SUITE_P(Both, StorageTypes,
                         testing::Values(DType::BF16, DType::F16),
                         [](const auto &test) {
                           return test.param == DType::BF16 ? "BF16" : "F16";
                         });

} // namespace
