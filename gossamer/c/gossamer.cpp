#include "gossamer/c/gossamer.h"

#include "gossamer/codegen/Compile.h"
#include "gossamer/program/Abi.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"

using gossamer::Numerics;
using gossamer::codegen::CompileOptions;
using gossamer::codegen::CompileResult;

struct GsResult {
  CompileResult compiled;
};

static bool setGradients(CompileOptions &options, llvm::StringRef value) {
  if (value == "forward")
    options.gradients = gossamer::Gradients::Forward;
  else if (value == "backward")
    options.gradients = gossamer::Gradients::Backward;
  return options.gradients != gossamer::Gradients::None;
}

/// Numbers of arguments, with commas between them.
static bool setWrt(CompileOptions &options, llvm::StringRef value) {
  for (llvm::StringRef number : llvm::split(value, ',')) {
    int64_t argument;
    if (number.getAsInteger(10, argument))
      return false;
    options.wrt.push_back(argument);
  }
  return true;
}

/// Names with commas between them; their meaning is the pipeline's.
static bool setWithout(CompileOptions &options, llvm::StringRef value) {
  for (llvm::StringRef name : llvm::split(value, ','))
    options.without.push_back(name.str());
  return true;
}

/// An unknown key or value is an error that names it.
static bool setOption(CompileOptions &options, llvm::StringRef key,
                      llvm::StringRef value) {
  if (key == "target") {
    options.target = value.str();
    return true;
  }
  if (key == "numerics" && (value == "fast" || value == "strict")) {
    options.numerics = value == "fast" ? Numerics::Fast : Numerics::Strict;
    return true;
  }
  if (key == "differentiate")
    return setGradients(options, value);
  if (key == "wrt")
    return setWrt(options, value);
  if (key == "without")
    return setWithout(options, value);
  bool flag = value == "1";
  if (!flag && value != "0")
    return false;
  if (key == "wide")
    options.wideIndex = flag;
  else if (key == "dump")
    options.dump = flag;
  else
    return false;
  return true;
}

static bool parseOptions(llvm::StringRef text, CompileOptions &options,
                         CompileResult &result) {
  for (llvm::StringRef option : llvm::split(text, ';')) {
    auto [key, value] = option.split('=');
    if (option.empty() || setOption(options, key, value))
      continue;
    result.error.text = "unknown compiler option '" + option.str() + "'";
    return false;
  }
  return true;
}

GsResult *gsCompile(const char *ir, size_t size, const char *options) {
  auto result = std::make_unique<GsResult>();
  CompileOptions parsed;
  if (parseOptions(options ? options : "", parsed, result->compiled))
    result->compiled = gossamer::codegen::compile({ir, size}, parsed);
  return result.release();
}

int gsOk(const GsResult *result) { return result->compiled.ok; }

static GsBytes bytes(const std::string &text) {
  return {text.data(), text.size()};
}

GsBytes gsGet(const GsResult *result, GsPart part) {
  const CompileResult &compiled = result->compiled;
  switch (part) {
  case GS_PROGRAM:
    return {reinterpret_cast<const char *>(compiled.program.data()),
            compiled.program.size()};
  case GS_REMARKS:
    return bytes(compiled.remarks);
  case GS_BUFFERS:
    return bytes(compiled.buffers);
  case GS_CAPTURED:
    return bytes(compiled.captured);
  case GS_OPTIMIZED:
    return bytes(compiled.optimized);
  case GS_KERNELS:
    return bytes(compiled.kernels);
  case GS_LLVM:
    return bytes(compiled.llvm);
  case GS_ERROR_TEXT:
    return bytes(compiled.error.text);
  case GS_ERROR_FILE:
    return bytes(compiled.error.file);
  }
  return {"", 0};
}

int gsErrorLine(const GsResult *result) { return result->compiled.error.line; }

void gsRelease(GsResult *result) { delete result; }

const char *gsVersion(void) {
  static const std::string version = "abi " +
                                     std::to_string(gossamer::kAbiVersion) +
                                     ", llvm " + LLVM_VERSION_STRING;
  return version.c_str();
}
