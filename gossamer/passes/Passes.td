//===- passes of the mp dialect --------------------------------------------===//
include "mlir/Pass/PassBase.td"

def ResolveMailbox : Pass<"mp-resolve-mailbox", "::mlir::func::FuncOp"> {
  let summary = "turn what happens in a mailbox into ops on edges";
  let description = [{
    A mailbox is the messages of a node side by side. Ops that treat each
    message alone become the same ops on edges; sums, means, maxima and softmax
    over the messages become mp.reduce and mp.softmax; a node row repeated for
    each message becomes mp.gather dst. What reads messages in another way is an
    error at the user's line.
    Example: test/lit/passes/resolve-mailbox.mlir.
  }];
}

def DropRoundings : Pass<"mp-drop-roundings", "::mlir::func::FuncOp"> {
  let summary = "keep values in f32 that torch rounds to 16 bits after each op";
  let description = [{
    A value that is rounded to bf16 or f16 and widened again is read as it was.
    The op that made it remembers the format, for store-narrow. More exact than
    torch, hence counted as reassociating.
    Example: test/lit/passes/drop-roundings.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def Differentiate : Pass<"mp-differentiate", "::mlir::func::FuncOp"> {
  let summary = "from a function to its gradients";
  let description = [{
    Reverse mode, in two functions that fit together:

    - `mode=backward`: takes the arguments, what the forward saved, and one
      gradient for each floating point result; returns the gradients of the
      arguments that `wrt` numbers, in that order;
    - `mode=forward`: the function itself, which also returns what it saves.

    Saved are rows of nodes only; rows of edges are computed again. With
    `save=false` nothing is saved, and the backward is a function of arguments
    and gradients that can be differentiated again.
    Example: test/lit/passes/differentiate.mlir.
  }];
  let options = [
    Option<"mode", "mode", "::gossamer::Half", "::gossamer::Half::Backward",
           "which half stays", [{
             ::llvm::cl::values(
               clEnumValN(::gossamer::Half::Forward, "forward",
                          "results, and what is saved"),
               clEnumValN(::gossamer::Half::Backward, "backward", "gradients"))
           }]>,
    ListOption<"wrt", "wrt", "int64_t", "numbers of arguments">,
    Option<"save", "save", "bool", "true", "save rows of nodes">,
    Option<"wideIndex", "wide-index", "bool", "false",
           "ids of edges need more than 32 bits">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::gossamer::mp::MpDialect"];
}

def ForgetGradients : Pass<"mp-forget-gradients", "::mlir::func::FuncOp"> {
  let summary = "drop what only differentiate reads";
  let description = [{
    mp.detach, and how max and min share a gradient between ties. Exact.
    Example: test/lit/passes/forget-gradients.mlir.
  }];
}

def ListDerivatives : Pass<"mp-list-derivatives"> {
  let summary = "print which ops have a derivative";
  let description = [{
    One line for each op of mp, arith and math: known, zero, missing, or why
    differentiate never sees it.
    Example: test/lit/passes/list-derivatives.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::gossamer::mp::MpDialect"];
}

def SplitLinear : Pass<"mp-split-linear", "::mlir::func::FuncOp"> {
  let summary = "give each part of a linear op's input its own linear op";
  let description = [{
    A product of edge rows that are put together from rows of both ends, by
    concat, add, sub or a factor per edge, is a sum of products of those rows,
    which hoist-before-gather then computes per node. Reassociates.
    Example: test/lit/passes/split-linear.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SplitSum : Pass<"mp-split-sum", "::mlir::func::FuncOp"> {
  let summary = "sum each part of a row of an edge apart";
  let description = [{
    A sum along an axis of rows that are put together by concat, times a vector
    for instance, is a sum of one sum for each part. Those that read one end of
    the edges only are then computed per node by hoist-before-gather. Reassociates.
    Example: test/lit/passes/split-sum.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def GroupTerms : Pass<"mp-group-terms", "::mlir::func::FuncOp"> {
  let summary = "add up what one end gives before the other end's rows join";
  let description = [{
    In a sum of rows of edges, the terms that are gathered from one end are added
    first. hoist-before-gather then adds them per node, and an edge reads one row
    instead of several. Reassociates.
    Example: test/lit/passes/group-terms.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def HoistBeforeGather : Pass<"mp-hoist-before-gather", "::mlir::func::FuncOp"> {
  let summary = "compute per node what would be recomputed on each of its edges";
  let description = [{
    A row-wise op whose operands with rows are all gathered from the same end of
    the edges gives the same row for every edge of a node. It moves in front of
    the gather. Ops whose operands have no rows are computed once. Exact.
    Example: test/lit/passes/hoist-before-gather.mlir.
  }];
}

def CommuteLinear : Pass<"mp-commute-linear", "::mlir::func::FuncOp"> {
  let summary = "multiply sums of messages, not messages, by a matrix";
  let description = [{
    The sum or mean of products with one matrix is the product of the sum or
    mean. One row per node is multiplied instead of one per edge; and rows are
    gathered before or after the product, whichever are narrower. Reassociates.
    Example: test/lit/passes/commute-linear.mlir. Where the two ends of a
    product are other rows, the better side depends on their numbers. With
    `choices` such products are noted, and `flip` has some on their other side:
    test/lit/passes/commute-linear-choices.mlir.
  }];
  let options = [
    Option<"join", "join", "bool", "false",
           "gather rows before the product also when both are as wide">,
    Option<"choices", "choices", "bool", "false",
           "note products whose side depends on numbers of rows">,
    Option<"flip", "flip", "int64_t", "0",
           "which of these groups are on their other side, a bit for each">];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def MergeLinear : Pass<"mp-merge-linear", "::mlir::func::FuncOp"> {
  let summary = "add weights, not products";
  let description = [{
    The sum or difference of two products of one table is one product with the
    sum or difference of the weights. Reassociates.
    Example: test/lit/passes/merge-linear.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def CommuteMax : Pass<"mp-commute-max", "::mlir::func::FuncOp"> {
  let summary = "apply what keeps order to a maximum, not to each message";
  let description = [{
    What is added per node, positive factors, relu and other functions that never
    decrease leave a max or min over the edges of a node; a sign turns it around.
    Reassociates.
    Example: test/lit/passes/commute-max.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::gossamer::mp::MpDialect"];
}

def DecomposeSoftmax : Pass<"mp-decompose-softmax", "::mlir::func::FuncOp"> {
  let summary = "spell out softmax over the edges of a node, and along features";
  let description = [{
    max, exp, sum and divide, as mp.softmax is defined. Exact.
    Example: test/lit/passes/decompose-softmax.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def FactorFromSum : Pass<"mp-factor-from-sum", "::mlir::func::FuncOp"> {
  let summary = "multiply or divide a sum once, not each of its terms";
  let description = [{
    A factor or divisor that is the same for all edges of a node moves out of
    the sum or mean over those edges: the weights of a softmax are normalised
    once per node. Reassociates.
    Example: test/lit/passes/factor-from-sum.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SinkBehindGather : Pass<"mp-sink-behind-gather", "::mlir::func::FuncOp"> {
  let summary = "recompute cheap rows per edge instead of storing them";
  let description = [{
    A row that is a few additions and multiplications away from a table is
    gathered from that table and computed on the edge, when computing it on the
    nodes would only write a second table of the same size. Exact.
    Example: test/lit/passes/sink-behind-gather.mlir.
  }];
}

def StoreNarrow : Pass<"mp-store-narrow", "::mlir::func::FuncOp"> {
  let summary = "store and read tables in 16 bits where torch has them so";
  let description = [{
    Rows of bf16 and f16 are gathered as they are, and widened on the edge.
    Products of the library take and make 16-bit tables, and kernels store
    16-bit rows for each other, where torch has tensors of that format.
    Example: test/lit/passes/store-narrow.mlir.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def PlaceProducts : Pass<"mp-place-products", "::mlir::func::FuncOp"> {
  let summary = "decide which products on nodes a kernel computes";
  let description = [{
    Marks mp.linear and mp.contract_rows on rows of nodes `in_kernel` where a
    kernel is faster than a product of whole tables. Exact.
    Example: test/lit/passes/place-products.mlir.
  }];
  let options = [
    Option<"bySize", "by-size", "bool", "true",
           "leave products to the library that it is faster at">];
}

def FormKernels : Pass<"mp-form-kernels", "::mlir::func::FuncOp"> {
  let summary = "group ops into passes over the rows of one node set";
  let description = [{
    Everything but products that are no part of kernels, sums over all rows,
    views and prefixes moves into mp.kernel ops: as few as the data flow between the two ends of the edges allows.
    Edge values live inside kernels and are recomputed in each kernel that reads
    them; only those that the function returns become tables. Exact.
    Example: test/lit/passes/form-kernels.mlir.
  }];
  let dependentDialects = ["::gossamer::mp::MpDialect"];
}

def VerifyKernels : Pass<"mp-verify-kernels", "::mlir::func::FuncOp"> {
  let summary = "check that only kernels, products, views and prefixes are left";
  let description = [{
    The contract of lowering. Each op that breaks it is an error at its line.
    Example: test/lit/passes/verify-kernels-errors.mlir.
  }];
}
