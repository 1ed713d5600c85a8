#include "gossamer/runtime/KernelImports.h"

#include <cmath>
#include <cstring>

namespace gossamer {

namespace {

struct Import {
  std::string_view name;
  void *address;
};

template <typename Fn> void *address(Fn *function) {
  return reinterpret_cast<void *>(function);
}

// A math function in both precisions, under its C names.
#define GOSSAMER_UNARY(name)                                                   \
  {#name, address<double(double)>(&::name)}, {                                 \
    #name "f", address<float(float)>(&::name##f)                               \
  }
#define GOSSAMER_BINARY(name)                                                  \
  {#name, address<double(double, double)>(&::name)}, {                         \
    #name "f", address<float(float, float)>(&::name##f)                        \
  }

const Import kImports[] = {
    {"memcpy", address<void *(void *, const void *, size_t)>(&::memcpy)},
    {"memmove", address<void *(void *, const void *, size_t)>(&::memmove)},
    {"memset", address<void *(void *, int, size_t)>(&::memset)},
    GOSSAMER_UNARY(exp),
    GOSSAMER_UNARY(exp2),
    GOSSAMER_UNARY(expm1),
    GOSSAMER_UNARY(log),
    GOSSAMER_UNARY(log2),
    GOSSAMER_UNARY(log10),
    GOSSAMER_UNARY(log1p),
    GOSSAMER_UNARY(sqrt),
    GOSSAMER_UNARY(cbrt),
    GOSSAMER_UNARY(sin),
    GOSSAMER_UNARY(cos),
    GOSSAMER_UNARY(tan),
    GOSSAMER_UNARY(asin),
    GOSSAMER_UNARY(acos),
    GOSSAMER_UNARY(atan),
    GOSSAMER_UNARY(sinh),
    GOSSAMER_UNARY(cosh),
    GOSSAMER_UNARY(tanh),
    GOSSAMER_UNARY(asinh),
    GOSSAMER_UNARY(acosh),
    GOSSAMER_UNARY(atanh),
    GOSSAMER_UNARY(erf),
    GOSSAMER_UNARY(erfc),
    GOSSAMER_UNARY(floor),
    GOSSAMER_UNARY(ceil),
    GOSSAMER_UNARY(trunc),
    GOSSAMER_UNARY(round),
    GOSSAMER_UNARY(rint),
    GOSSAMER_UNARY(nearbyint),
    GOSSAMER_UNARY(roundeven),
    GOSSAMER_BINARY(pow),
    GOSSAMER_BINARY(atan2),
    GOSSAMER_BINARY(fmod),
    GOSSAMER_BINARY(fmin),
    GOSSAMER_BINARY(fmax),
    // A sine and cosine of one argument are merged into these.
    {"sincos", address<void(double, double *, double *)>(&::sincos)},
    {"sincosf", address<void(float, float *, float *)>(&::sincosf)},
    {"fma", address<double(double, double, double)>(&::fma)},
    {"fmaf", address<float(float, float, float)>(&::fmaf)},
};

#undef GOSSAMER_UNARY
#undef GOSSAMER_BINARY

} // namespace

void *kernelImport(std::string_view name) {
  for (const Import &import : kImports)
    if (import.name == name)
      return import.address;
  return nullptr;
}

} // namespace gossamer
