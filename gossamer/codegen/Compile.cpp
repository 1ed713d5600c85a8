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

  /// Compiles one variant: `flip` says which choices it makes the other way.
  FailureOr<Program> run(StringRef ir, int64_t flip);

  /// The variants of what was compiled, itself included.
  int64_t variants() const { return int64_t(1) << choices; }

private:
  LogicalResult parse(StringRef ir);
  LogicalResult optimize(int64_t flip);
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
  int64_t choices = 0; // that a run has
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

LogicalResult Compilation::optimize(int64_t flip) {
  PipelineOptions pipeline;
  pipeline.numerics = options.numerics;
  pipeline.differentiate = options.gradients;
  pipeline.wrt = ArrayRef(options.wrt);
  pipeline.wideIndex = options.wideIndex;
  pipeline.flip = flip;
  for (const std::string &name : options.without)
    if (!pipeline.leaveOut(name))
      return emitError(UnknownLoc::get(&context))
             << "no optional pass is called '" << name << "'";
  if (failed(runPasses(*module, [&](PassManager &passes) {
        buildPipeline(passes, pipeline);
      })))
    return failure();
  dump(result.optimized, *module);
  if (auto noted = function->getAttrOfType<IntegerAttr>("mp.choices"))
    choices = noted.getInt();
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
  return success();
}

void Compilation::dump(std::string &text, Operation *op) const {
  if (!options.dump)
    return;
  llvm::raw_string_ostream stream(text);
  op->print(stream, OpPrintingFlags().enableDebugInfo(false));
}

FailureOr<Program> Compilation::run(StringRef ir, int64_t flip) {
  ErrorCollector errors(context, result.error);
  if (failed(parse(ir)) || failed(optimize(flip)) || failed(lower()) ||
      failed(emit()))
    return failure();
  return std::move(program);
}

/// The program with its variants. The report is about the first: what the
/// others do differently is one remark in it.
static FailureOr<Program>
compileAll(StringRef ir, const CompileOptions &options, CompileResult &result) {
  Compilation first(options, result);
  FailureOr<Program> program = first.run(ir, /*flip=*/0);
  if (failed(program))
    return failure();
  CompileOptions quiet = options;
  quiet.dump = false;
  for (int64_t flip = 1; flip < first.variants(); ++flip) {
    CompileResult other;
    Compilation variant(quiet, other);
    FailureOr<Program> compiled = variant.run(ir, flip);
    if (failed(compiled)) {
      result.error = other.error;
      return failure();
    }
    program->variants.push_back(std::move(*compiled));
  }
  return program;
}

CompileResult gossamer::codegen::compile(StringRef ir,
                                         const CompileOptions &options) {
  CompileResult result;
  FailureOr<Program> program = compileAll(ir, options, result);
  if (succeeded(program)) {
    Status valid = validate(*program);
    result.ok = valid.ok();
    if (!valid.ok())
      result.error.text =
          "the compiler made a bad program: " + valid.error().text;
  }
  if (result.ok) {
    result.program = save(*program);
    result.buffers = describeBuffers(*program);
  } else if (result.error.text.empty()) {
    result.error.text = "compilation failed without saying why";
  }
  return result;
}
