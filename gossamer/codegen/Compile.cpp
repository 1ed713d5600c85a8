// The stages of the compiler, in order.

#include "gossamer/codegen/Compile.h"

#include "gossamer/codegen/BuildProgram.h"
#include "gossamer/codegen/EmitObject.h"
#include "gossamer/codegen/Report.h"
#include "gossamer/ir/MpDialect.h"
#include "gossamer/passes/Pipeline.h"
#include "gossamer/program/Serialize.h"
#include "gossamer/program/Validate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace gossamer;
using namespace gossamer::codegen;

namespace {

class Compilation {
public:
  Compilation(const CompileOptions &compileOptions, CompileResult &out)
      : options(compileOptions), result(out),
        context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<mp::MpDialect, arith::ArithDialect, func::FuncDialect,
                        LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                        vector::VectorDialect>();
    collectRemarks(context, result.remarks);
  }

  LogicalResult run(StringRef ir);

private:
  LogicalResult parse(StringRef ir);
  LogicalResult optimize();
  LogicalResult lower();
  LogicalResult emit();
  void dump(std::string &text, Operation *op) const;
  LogicalResult runPasses(ModuleOp on, function_ref<void(PassManager &)> add);

  const CompileOptions &options;
  CompileResult &result;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Machine machine;
  Program program;
};

} // namespace

LogicalResult Compilation::parse(StringRef ir) {
  FailureOr<Machine> selected = Machine::select(options.target);
  if (failed(selected))
    return emitError(UnknownLoc::get(&context))
           << "unknown target '" << options.target
           << "': expects host, generic, x86-64-v2, x86-64-v3 or x86-64-v4";
  machine = *selected;
  machine.kernels.wideIndex = options.wideIndex;
  module = parseSourceString<ModuleOp>(ir, ParserConfig(&context));
  if (!module)
    return failure();
  auto functions = llvm::to_vector(module->getOps<func::FuncOp>());
  if (functions.size() != 1)
    return module->emitError("expects one function, but found ")
           << functions.size();
  function = functions.front();
  dump(result.captured, *module);
  return success();
}

LogicalResult Compilation::runPasses(ModuleOp on,
                                     function_ref<void(PassManager &)> add) {
  PassManager passes(&context);
  add(passes);
  return passes.run(on);
}

LogicalResult Compilation::optimize() {
  PipelineOptions pipeline;
  pipeline.numerics = options.numerics;
  pipeline.differentiate = options.gradients;
  pipeline.wrt = ArrayRef(options.wrt);
  pipeline.wideIndex = options.wideIndex;
  for (const std::string &name : options.without)
    if (!pipeline.leaveOut(name))
      return emitError(UnknownLoc::get(&context))
             << "no optional pass is called '" << name << "'";
  if (failed(runPasses(*module, [&](PassManager &passes) {
        buildPipeline(passes, pipeline);
      })))
    return failure();
  dump(result.optimized, *module);
  return success();
}

/// Emits the kernels into the module, builds the steps, and leaves only the
/// kernels' functions in it.
LogicalResult Compilation::lower() {
  if (failed(runPasses(*module, [&](PassManager &passes) {
        lowering::addLowerKernels(passes, machine.kernels);
      })))
    return failure();
  dump(result.kernels, *module);
  FailureOr<Program> built = buildProgram(function);
  if (failed(built))
    return failure();
  program = std::move(*built);
  function.erase();
  return runPasses(*module, [&](PassManager &passes) {
    lowering::addLowerToLLVM(passes, machine.kernels);
  });
}

LogicalResult Compilation::emit() {
  program.wideIndex = options.wideIndex;
  program.cpu = machine.needs;
  if (!module->getBody()->empty()) {
    FailureOr<std::vector<uint8_t>> code =
        emitObject(*module, machine, options.dump ? &result.llvm : nullptr);
    if (failed(code))
      return failure();
    program.code = std::move(*code);
  }
  if (Status valid = validate(program); !valid.ok())
    return emitError(UnknownLoc::get(&context))
           << "the compiler made a bad program: " << valid.error().text;
  result.program = save(program);
  result.buffers = describeBuffers(program);
  return success();
}

void Compilation::dump(std::string &text, Operation *op) const {
  if (!options.dump)
    return;
  llvm::raw_string_ostream stream(text);
  op->print(stream, OpPrintingFlags().enableDebugInfo(false));
}

LogicalResult Compilation::run(StringRef ir) {
  ErrorCollector errors(context, result.error);
  return failure(failed(parse(ir)) || failed(optimize()) || failed(lower()) ||
                 failed(emit()));
}

CompileResult gossamer::codegen::compile(StringRef ir,
                                         const CompileOptions &options) {
  CompileResult result;
  {
    Compilation compilation(options, result);
    result.ok = succeeded(compilation.run(ir));
  }
  if (!result.ok && result.error.text.empty())
    result.error.text = "compilation failed without saying why";
  return result;
}
