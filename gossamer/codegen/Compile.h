// The compiler as one function: IR text in, a saved Program and a report out.
#ifndef GOSSAMER_CODEGEN_COMPILE_H
#define GOSSAMER_CODEGEN_COMPILE_H

#include "gossamer/codegen/Machine.h"
#include "gossamer/passes/Pipeline.h"

#include <string>
#include <vector>

namespace gossamer::codegen {

struct CompileOptions {
  std::string target = "host";
  Numerics numerics = Numerics::Fast;
  Gradients gradients = Gradients::None;
  std::vector<int64_t> wrt;         // arguments that need gradients
  std::vector<std::string> without; // options of the pipeline to switch off
  bool wideIndex = false;
  bool dump = false; // keep the text of the stages
};

struct CompileError {
  std::string text;
  std::string file; // of the user, or empty
  int line = 0;
};

struct CompileResult {
  bool ok = false;
  CompileError error;
  std::vector<uint8_t> program;
  std::string remarks; // JSON, one object a line
  std::string buffers; // JSON
  std::string captured, optimized, kernels, llvm;
};

/// Compiles the one function in `ir`. Uses no global state but LLVM's registry
/// of targets, so calls may run at the same time.
CompileResult compile(llvm::StringRef ir, const CompileOptions &options);

} // namespace gossamer::codegen

#endif
