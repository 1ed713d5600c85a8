//===- passes of the lowering ----------------------------------------------===//
include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"mp-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "emit a function for each mp.kernel";
  let description = [{
    The functions take a GsKernelCall, a range of rows and scratch memory
    (program/Abi.h). The mp.kernel ops stay, with the name of their function,
    scratch sizes and whether they use edges as attributes.
    Example: test/lit/lowering/spmm.mlir.
  }];
  let options = [
    Option<"vectorBytes", "vector-bytes", "int64_t", "32",
           "bytes of a full vector register">,
    Option<"accumulators", "accumulators", "int64_t", "8",
           "registers that a tile may keep">,
    Option<"wideIndex", "wide-index", "bool", "false",
           "graph arrays hold int64">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerConversions : Pass<"mp-lower-conversions", "::mlir::ModuleOp"> {
  let summary = "turn conversions of 16-bit floats into integer ops";
  let description = [{
    Those that are an instruction stay.
    Example: test/lit/lowering/conversions.mlir.
  }];
  let options = [
    Option<"hasBf16", "has-bf16", "bool", "false", "the machine rounds to bf16">,
    Option<"hasF16", "has-f16", "bool", "true", "the machine converts f16">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LowerMath : Pass<"mp-lower-math", "::mlir::ModuleOp"> {
  let summary = "turn math ops into polynomials, or calls of libm";
  let description = [{
    Ops that are an instruction stay. Example: test/lit/lowering/math.mlir.
  }];
  let options = [
    Option<"hasFma", "has-fma", "bool", "true", "the machine has fma">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}
