#include "gossamer/codegen/EmitObject.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace gossamer;
using namespace gossamer::codegen;
using namespace llvm;

/// The vectors are explicit already: what is left is to clean up, to move
/// address arithmetic out of loops, and to unroll small ones.
static void optimize(Module &module, TargetMachine &backend) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager callGraph;
  ModuleAnalysisManager modules;
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  PassBuilder builder(&backend, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2)
      .run(module, modules);
}

static void setAttributes(Module &module, const Machine &machine) {
  std::string width = std::to_string(machine.kernels.vectorBytes * 8);
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.cpu);
    function.addFnAttr("target-features", machine.features);
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr(Attribute::NoUnwind);
  }
}

mlir::FailureOr<std::vector<uint8_t>>
codegen::emitObject(mlir::ModuleOp kernels, const Machine &machine,
                    std::string *text) {
  std::unique_ptr<TargetMachine> backend = machine.createTargetMachine();
  if (!backend)
    return kernels.emitError("cannot generate code for this machine: LLVM has "
                             "no back end for ")
           << machine.cpu;
  mlir::registerBuiltinDialectTranslation(*kernels.getContext());
  mlir::registerLLVMDialectTranslation(*kernels.getContext());
  LLVMContext context;
  std::unique_ptr<Module> module =
      mlir::translateModuleToLLVMIR(kernels, context, "gossamer");
  if (!module)
    return mlir::failure();
  module->setDataLayout(backend->createDataLayout());
  module->setTargetTriple(backend->getTargetTriple());
  module->setPICLevel(PICLevel::SmallPIC);
  setAttributes(*module, machine);
  optimize(*module, *backend);
  if (text) {
    raw_string_ostream stream(*text);
    module->print(stream, nullptr);
  }
  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager emitter;
  if (backend->addPassesToEmitFile(emitter, stream, nullptr,
                                   CodeGenFileType::ObjectFile))
    return kernels.emitError("LLVM cannot emit objects for ") << machine.cpu;
  emitter.run(*module);
  return std::vector<uint8_t>(object.begin(), object.end());
}
