// The machine that code is generated for.
#ifndef GOSSAMER_CODEGEN_MACHINE_H
#define GOSSAMER_CODEGEN_MACHINE_H

#include "gossamer/lowering/Lowering.h"

#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace gossamer::codegen {

struct Machine {
  std::string cpu;      // LLVM's name
  std::string features; // LLVM's list, "+avx2,-sse4a,..."
  std::string needs;    // Program::cpu
  lowering::KernelOptions kernels;

  /// `name` is "host", "generic" (x86-64-v2) or another x86-64 level.
  static mlir::FailureOr<Machine> select(llvm::StringRef name);

  /// A machine that emits position-independent code of the small model. Null
  /// when LLVM was built without this target.
  std::unique_ptr<llvm::TargetMachine> createTargetMachine() const;
};

} // namespace gossamer::codegen

#endif
