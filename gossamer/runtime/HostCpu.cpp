#include "gossamer/runtime/HostCpu.h"

#include <algorithm>

namespace gossamer {

namespace {

enum class Support { Yes, No, Unknown };

Support support(std::string_view word) {
#if defined(__x86_64__)
  // The builtin takes literals only.
#define GOSSAMER_CPU_WORD(name)                                                \
  if (word == name)                                                            \
    return __builtin_cpu_supports(name) ? Support::Yes : Support::No;
  GOSSAMER_CPU_WORD("x86-64-v2")
  GOSSAMER_CPU_WORD("x86-64-v3")
  GOSSAMER_CPU_WORD("x86-64-v4")
  GOSSAMER_CPU_WORD("sse4.1")
  GOSSAMER_CPU_WORD("sse4.2")
  GOSSAMER_CPU_WORD("avx")
  GOSSAMER_CPU_WORD("avx2")
  GOSSAMER_CPU_WORD("fma")
  GOSSAMER_CPU_WORD("f16c")
  GOSSAMER_CPU_WORD("bmi")
  GOSSAMER_CPU_WORD("bmi2")
  GOSSAMER_CPU_WORD("lzcnt")
  GOSSAMER_CPU_WORD("popcnt")
  GOSSAMER_CPU_WORD("avx512f")
  GOSSAMER_CPU_WORD("avx512bw")
  GOSSAMER_CPU_WORD("avx512cd")
  GOSSAMER_CPU_WORD("avx512dq")
  GOSSAMER_CPU_WORD("avx512vl")
  GOSSAMER_CPU_WORD("avx512ifma")
  GOSSAMER_CPU_WORD("avx512vbmi")
  GOSSAMER_CPU_WORD("avx512vbmi2")
  GOSSAMER_CPU_WORD("avx512vnni")
  GOSSAMER_CPU_WORD("avx512bitalg")
  GOSSAMER_CPU_WORD("avx512vpopcntdq")
  GOSSAMER_CPU_WORD("avx512bf16")
  GOSSAMER_CPU_WORD("gfni")
  GOSSAMER_CPU_WORD("vpclmulqdq")
#undef GOSSAMER_CPU_WORD
#endif
  return Support::Unknown;
}

} // namespace

Status checkHostCpu(std::string_view cpu) {
  while (!cpu.empty()) {
    std::string_view word = cpu.substr(0, cpu.find(','));
    if (support(word) == Support::No)
      return makeError(ErrorCode::Unsupported, "program was compiled for ",
                       word,
                       ", which this processor does not have: compile "
                       "it on this machine, or for a generic target");
    cpu.remove_prefix(std::min(word.size() + 1, cpu.size()));
  }
  return {};
}

} // namespace gossamer
