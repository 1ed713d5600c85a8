//===- what the operations of the mp dialect share -------------------------===//
#ifndef GOSSAMER_IR_MPOP_TD
#define GOSSAMER_IR_MPOP_TD

include "gossamer/ir/MpDialect.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Mp_Op<string mnemonic, list<Trait> traits = []> :
    Op<Mp_Dialect, mnemonic, traits>;

/// Row `r` of the result depends on row `r` of each operand that has rows, and on
/// operands without rows: what the op does is the same on any row set. Ops on
/// whole tables of one type (arith, math) carry MLIR's Elementwise instead.
def Mp_RowWise : NativeOpTrait<"RowWise"> {
  let cppNamespace = "::gossamer::mp";
}

/// Copies or repeats values and computes nothing: free where the result is read
/// in place.
def Mp_CopiesOnly : NativeOpTrait<"CopiesOnly"> {
  let cppNamespace = "::gossamer::mp";
}

/// A table: rows of a graph, or one row shared by all (no encoding). bf16 and
/// f16 are for storage: ops that move rows take them, and whatever computes takes
/// f32 (arith.extf, arith.truncf).
def Mp_Table : RankedTensorOf<[AnyFloat, AnySignlessInteger]>;

#endif
