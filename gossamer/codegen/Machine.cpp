#include "gossamer/codegen/Machine.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <mutex>

using namespace gossamer;
using namespace gossamer::codegen;
using namespace llvm;

/// Features whose presence the runtime checks before it maps code. Others are
/// not used by code for levels, and are on every machine that has these.
static constexpr StringLiteral kChecked[] = {
    "sse4.1",     "sse4.2",       "avx",
    "avx2",       "fma",          "f16c",
    "bmi",        "bmi2",         "lzcnt",
    "popcnt",     "avx512f",      "avx512bw",
    "avx512cd",   "avx512dq",     "avx512vl",
    "avx512ifma", "avx512vbmi",   "avx512vbmi2",
    "avx512vnni", "avx512bitalg", "avx512vpopcntdq",
    "avx512bf16", "gfni",         "vpclmulqdq"};

static void setKernelOptions(gossamer::lowering::KernelOptions &kernels,
                             bool avx2, bool avx512, bool fma) {
  // AVX-512 has 32 registers: half of them for accumulators. Without AVX a
  // vector is two SSE registers wide, so a tile gets as many bytes as with it.
  kernels.vectorBytes = avx512 ? 64 : avx2 ? 32 : 16;
  kernels.accumulators = avx512 ? 16 : 8;
  kernels.hasFma = fma;
  kernels.hasF16 = avx2;
}

static Machine hostMachine() {
  Machine machine;
  machine.cpu = sys::getHostCPUName().str();
  machine.needs = machine.cpu;
  StringMap<bool> host = sys::getHostCPUFeatures();
  SubtargetFeatures features;
  SmallVector<StringRef> names;
  for (const auto &feature : host)
    names.push_back(feature.first());
  llvm::sort(names);
  for (StringRef name : names)
    features.AddFeature(name, host.lookup(name));
  machine.features = features.getString();
  for (StringRef name : kChecked)
    if (host.lookup(name))
      machine.needs += "," + name.str();
  bool avx512 = host.lookup("avx512f") && host.lookup("avx512vl") &&
                host.lookup("avx512dq") && host.lookup("avx512bw");
  setKernelOptions(machine.kernels, host.lookup("avx2"), avx512,
                   host.lookup("fma"));
  machine.kernels.hasBf16 = avx512 && host.lookup("avx512bf16");
  machine.kernels.hasF16 = host.lookup("f16c");
  return machine;
}

mlir::FailureOr<Machine> Machine::select(StringRef name) {
  if (name == "host")
    return hostMachine();
  int level = StringSwitch<int>(name)
                  .Cases({"generic", "x86-64-v2"}, 2)
                  .Case("x86-64-v3", 3)
                  .Case("x86-64-v4", 4)
                  .Default(0);
  if (level == 0)
    return mlir::failure();
  Machine machine;
  machine.cpu = machine.needs = "x86-64-v" + std::to_string(level);
  setKernelOptions(machine.kernels, level >= 3, level >= 4, level >= 3);
  return machine;
}

std::unique_ptr<TargetMachine> Machine::createTargetMachine() const {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  Triple triple(sys::getProcessTriple());
  std::string error;
  const llvm::Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  TargetOptions options;
  // Only what carries the flag: see Combine.cpp.
  options.AllowFPOpFusion = FPOpFusion::Standard;
  return std::unique_ptr<TargetMachine>(
      backend->createTargetMachine(triple, cpu, features, options, Reloc::PIC_,
                                   CodeModel::Small, CodeGenOptLevel::Default));
}
