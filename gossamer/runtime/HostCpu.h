// Whether this machine can run a program's code.
#ifndef GOSSAMER_RUNTIME_HOSTCPU_H
#define GOSSAMER_RUNTIME_HOSTCPU_H

#include "gossamer/program/Result.h"

#include <string_view>

namespace gossamer {

/// Checks the levels and features among the words of Program::cpu.
Status checkHostCpu(std::string_view cpu);

} // namespace gossamer

#endif
