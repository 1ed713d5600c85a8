#include "gossamer/runtime/StorageTypes.h"

#include <bit>

namespace gossamer {

namespace {

constexpr uint32_t kSign = 0x80000000u;

float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

uint16_t toBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  bool isNaN = (bits & ~kSign) > 0x7F800000u;
  return uint16_t((isNaN ? bits | 0x400000u : rounded) >> 16);
}

/// `a` where `choose`, else `b`: without a branch, so that loops are vectors.
uint32_t pick(bool choose, uint32_t a, uint32_t b) {
  uint32_t mask = 0u - uint32_t(choose);
  return (a & mask) | (b & ~mask);
}

/// The exponents of the two formats differ by 112. Infinities and NaN move up
/// by as much again; denormals are numbers once an implicit one is subtracted.
float fromF16(uint16_t bits) {
  constexpr uint32_t bias = 112u << 23, one = 1u << 23;
  uint32_t magnitude = (bits & 0x7FFFu) << 13;
  float tiny = std::bit_cast<float>(magnitude + bias + one) - 0x1p-14f;
  uint32_t normal = magnitude + bias;
  uint32_t above = pick(magnitude >= 0x0F800000u, normal + bias, normal);
  uint32_t size = pick(magnitude < one, std::bit_cast<uint32_t>(tiny), above);
  return std::bit_cast<float>(size | uint32_t(bits & 0x8000u) << 16);
}

/// Below 2^-14 an addition rounds at the last bit of a denormal; from halfway
/// between the largest number and 2^16 on, it is infinity.
uint16_t toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t magnitude = bits & ~kSign;
  float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  uint32_t tiny =
      std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  uint32_t normal =
      (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t half = pick(magnitude < 0x38800000u, tiny, normal);
  half = pick(magnitude >= 0x477FF000u, 0x7C00u, half);
  half = pick(magnitude > 0x7F800000u, 0x7E00u, half);
  return uint16_t(half | (bits & kSign) >> 16);
}

template <float (*convert)(uint16_t)>
void widenAll(const uint16_t *from, int64_t stride, int64_t count, float *to) {
  if (stride == 1)
    for (int64_t i = 0; i < count; ++i)
      to[i] = convert(from[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = convert(from[i * stride]);
}

} // namespace

void widen(DType dtype, const void *from, int64_t stride, int64_t count,
           float *to) {
  const uint16_t *bits = static_cast<const uint16_t *>(from);
  if (dtype == DType::BF16)
    return widenAll<fromBF16>(bits, stride, count, to);
  widenAll<fromF16>(bits, stride, count, to);
}

void narrow(DType dtype, const float *from, int64_t count, void *to) {
  uint16_t *bits = static_cast<uint16_t *>(to);
  if (dtype == DType::BF16)
    for (int64_t i = 0; i < count; ++i)
      bits[i] = toBF16(from[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      bits[i] = toF16(from[i]);
}

} // namespace gossamer
