//===- operations of the mp dialect ----------------------------------------===//
#ifndef GOSSAMER_IR_MPOPS_TD
#define GOSSAMER_IR_MPOPS_TD

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

//===- between nodes and edges ---------------------------------------------===//

def Mp_GatherOp : Mp_Op<"gather", [Pure]> {
  let summary = "copy a node row onto every edge that touches the node";
  let description = [{
    Row `e` of the result is the row of `nodes` at the chosen end of edge `e`.

    ```mlir
    %m = mp.gather src %x : tensor<?x64xf32, #mp.rows<0, node>>
                         -> tensor<?x64xf32, #mp.rows<0, edge>>
    ```

    `nodes` has kind `node`, or the kind named by `end`. Everything but the
    kind is equal in both types.
  }];
  let arguments = (ins Mp_End:$end, Mp_Table:$nodes);
  let results = (outs Mp_Table:$edges);
  let assemblyFormat = "$end $nodes attr-dict `:` type($nodes) `->` type($edges)";
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_ReduceOp : Mp_Op<"reduce", [Pure]> {
  let summary = "combine the edge rows that meet at a node";
  let description = [{
    Row `v` of the result combines the rows of `edges` whose `end` is `v`, in
    order of edge id. A node without such edges gets 0, whatever the kind.

    ```mlir
    %h = mp.reduce sum dst %m : tensor<?x64xf32, #mp.rows<0, edge>>
                             -> tensor<?x64xf32, #mp.rows<0, node>>
    ```

    max and min propagate NaN, as torch's do. Integer sums wrap.

    `ties` speaks to differentiate only: of several edges that attain the max
    or min, the first one gets the whole gradient (torch's `max(dim)`), or all
    of them get an even share (torch's `amax`).

    ```mlir
    %h = mp.reduce max dst %m ties even : ...
    ```
  }];
  let arguments = (ins Mp_ReduceKind:$kind, Mp_End:$end, Mp_Table:$edges,
                       DefaultValuedAttr<Mp_Ties, "Ties::First">:$ties);
  let results = (outs Mp_Table:$nodes);
  let assemblyFormat = [{
    $kind $end $edges (`ties` $ties^)? attr-dict `:` type($edges) `->` type($nodes)
  }];
  let hasVerifier = 1;
}

def Mp_SoftmaxOp : Mp_Op<"softmax", [Pure, SameOperandsAndResultType]> {
  let summary = "normalise edge rows over the edges that meet at a node";
  let description = [{
    For each node and feature: exp(x - max) / sum(exp(x - max)) over the edges
    whose `end` is that node.

    ```mlir
    %a = mp.softmax dst %e : tensor<?x4x1xf32, #mp.rows<0, edge>>
    ```
  }];
  let arguments = (ins Mp_End:$end, Mp_Table:$edges);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$end $edges attr-dict `:` type($edges)";
  let hasVerifier = 1;
}

def Mp_MailboxOp : Mp_Op<"mailbox", [Pure]> {
  let summary = "the messages of each node, on a ragged axis 1";
  let description = [{
    What a reduce UDF sees: slot `d` of row `v` is the `d`-th edge row, in
    order of edge id, whose destination is `v`.

    ```mlir
    %b = mp.mailbox %m : tensor<?x64xf32, #mp.rows<0, edge>>
                      -> tensor<?x?x64xf32, #mp.rows<0, mailbox>>
    ```

    resolve-mailbox removes it.
  }];
  let arguments = (ins Mp_Table:$edges);
  let results = (outs Mp_Table:$slots);
  let assemblyFormat = "$edges attr-dict `:` type($edges) `->` type($slots)";
  let hasVerifier = 1;
}

def Mp_DegreeOp : Mp_Op<"degree", [Pure]> {
  let summary = "how many edges meet at each node";
  let description = [{
    ```mlir
    %d = mp.degree dst : tensor<?xi64, #mp.rows<0, node>>
    ```
  }];
  let arguments = (ins Mp_End:$end);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$end attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mp_FillIsolatedOp : Mp_Op<"fill_isolated", [Pure]> {
  let summary = "give nodes without edges a fixed value";
  let description = [{
    Rows of `nodes` at which no edge ends (`end`) become `value`; the others
    stay. DGL calls a reduce UDF only for nodes that got a message and fills
    the rest with the field's initializer: this op ends every UDF reduction,
    and nothing moves across it.

    ```mlir
    %h = mp.fill_isolated dst %y, 0.0 : tensor<?x64xf32, #mp.rows<0, node>>
    ```
  }];
  let arguments = (ins Mp_End:$end, Mp_Table:$nodes, TypedAttrInterface:$value);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$end $nodes `,` $value attr-dict `:` type($nodes) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_PrefixOp : Mp_Op<"prefix", [Pure]> {
  let summary = "the same rows, or the first of them, seen as another row set";
  let description = [{
    Row `i` of the result is row `i` of `rows`. The row sets are known to
    agree: the destinations of a block are its first sources, two relations
    share a node type, the destinations of one block are the sources of the
    next, the nodes of a graph are the edges that lead to its batch's graphs.
    The runtime checks that there are enough rows.

    ```mlir
    %d = mp.prefix %s : tensor<?x64xf32, #mp.rows<0, src>>
                     -> tensor<?x64xf32, #mp.rows<0, dst>>
    ```
  }];
  let arguments = (ins Mp_Table:$rows);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$rows attr-dict `:` type($rows) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_PadRowsOp : Mp_Op<"pad_rows", [Pure]> {
  let summary = "rows at the front of a larger row set, zeros behind";
  let description = [{
    The adjoint of prefix: row `i` of the result is row `i` of `rows`, and 0
    when there is none.

    ```mlir
    %s = mp.pad_rows %d : tensor<?x64xf32, #mp.rows<0, dst>>
                       -> tensor<?x64xf32, #mp.rows<0, src>>
    ```
  }];
  let arguments = (ins Mp_Table:$rows);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$rows attr-dict `:` type($rows) `->` type($result)";
  let hasVerifier = 1;
}

//===- rows of a table by number -------------------------------------------===//

def Mp_LookupOp : Mp_Op<"lookup", [Pure, Mp_RowWise]> {
  let summary = "rows of a small table by number";
  let description = [{
    Row `r` of the result is `table[index[r]]`: the embedding of a type, the
    weights of a relation.

    ```mlir
    %w = mp.lookup %table at %index
      : tensor<8x64xf32>, tensor<?xi64, #mp.rows<0, edge>>
     -> tensor<?x64xf32, #mp.rows<0, edge>>
    ```

    `from_end`: negative numbers count from the end, as in torch's indexing.
    The program checks every number of `index` before it runs a kernel that
    reads it, so `index` is a table there, and an op stays on the rows that it
    was written for: others may have numbers that are never used. `field` names
    the index in the error.
  }];
  let arguments = (ins Mp_Table:$table, Mp_Table:$index, UnitAttr:$from_end,
                       OptionalAttr<StrAttr>:$field);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $table `at` $index (`from_end` $from_end^)? attr-dict `:`
    type($table) `,` type($index) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Mp_SumByOp : Mp_Op<"sum_by", [Pure]> {
  let summary = "the sum of the rows of each number";
  let description = [{
    The adjoint of lookup, in its `table`: row `k` of the result is the sum of
    all `rows[r]` with `index[r] = k`, over edges or nodes. A kernel adds it up.

    ```mlir
    %g = mp.sum_by %rows at %index
      : tensor<?x64xf32, #mp.rows<0, edge>>, tensor<?xi64, #mp.rows<0, edge>>
     -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins Mp_Table:$rows, Mp_Table:$index, UnitAttr:$from_end,
                       OptionalAttr<StrAttr>:$field);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $rows `at` $index (`from_end` $from_end^)? attr-dict `:`
    type($rows) `,` type($index) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===- over all rows -------------------------------------------------------===//

def Mp_SumRowsOp : Mp_Op<"sum_rows", [Pure]> {
  let summary = "the sum of all rows of a table of nodes";
  let description = [{
    The adjoint of repeating a parameter for every row.

    ```mlir
    %b = mp.sum_rows %g : tensor<?x64xf32, #mp.rows<0, node>> -> tensor<64xf32>
    ```

    Rows of edges are first reduced to nodes. The sum of bf16 and f16 is f32.
  }];
  let arguments = (ins Mp_Table:$rows);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$rows attr-dict `:` type($rows) `->` type($result)";
  let hasVerifier = 1;
}

def Mp_ContractRowsOp : Mp_Op<"contract_rows", [Pure]> {
  let summary = "the sum over all rows of the outer products of two tables";
  let description = [{
    The gradient of the weight of a linear op, transposed input times gradient:
    `result[k, o] = sum_{r...} left[r..., k] * right[r..., o]`, where `r...` are
    the rows and all feature axes but the last one. The sum of bf16 and f16 is
    f32. Over rows of nodes it is a step of its own, or `in_kernel` added up by
    a kernel that computes one of the tables; place-products decides.

    ```mlir
    %w = mp.contract_rows %x, %g
      : tensor<?x64xf32, #mp.rows<0, node>>, tensor<?x16xf32, #mp.rows<0, node>>
     -> tensor<64x16xf32>
    ```
  }];
  let arguments = (ins Mp_Table:$left, Mp_Table:$right, UnitAttr:$in_kernel);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $left `,` $right (`in_kernel` $in_kernel^)? attr-dict `:`
    type($left) `,` type($right) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===- along the features --------------------------------------------------===//

def Mp_IotaOp : Mp_Op<"iota", [Pure]> {
  let summary = "the position along an axis";
  let description = [{
    With rows: the number of each row, on edges the id of the edge. Without
    rows: the position along one axis. In i64; ids of edges also in i32, for
    programs on graphs whose index arrays are i32.

    ```mlir
    %e = mp.iota axis 0 : tensor<?xi64, #mp.rows<0, edge>>
    %k = mp.iota axis 1 : tensor<4x16xi64>
    ```
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "`axis` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mp_Seed : Type<
    CPred<"$_self == ::mlir::RankedTensorType::get({}, "
          "::mlir::IntegerType::get($_self.getContext(), 64))">,
    "one i64 without rows">,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;

def Mp_UniformOp : Mp_Op<"uniform", [Pure]> {
  let summary = "random numbers from [0, 1), the same for equal seed and stream";
  let description = [{
    Element `i` (row-major) of row `r` is a function of `seed`, `stream`, `r` and
    `i` alone: whatever visits the rows, in whatever order and on however many
    threads, and however often, finds the same numbers. The row of an edge is
    its id; a table without rows has row 0.

    ```mlir
    %u = mp.uniform %seed stream 0 : tensor<?x4x1xf32, #mp.rows<0, edge>>
    ```

    The numbers are words of Philox4x32-10 (Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", SC 2011) with key `seed` and counter
    (`i` / 4, low and high half of `r`, `stream`). Word `i % 4` gives an f32 its
    24 upper bits. An f64 takes 53 bits: counter (`i` / 2, ...), word
    `2 * (i % 2)`, then the upper bits of the next one.
  }];
  let arguments = (ins Mp_Seed:$seed, I32Attr:$stream);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$seed `stream` $stream attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mp_DetachOp : Mp_Op<"detach",
    [Pure, Mp_RowWise, Mp_CopiesOnly, SameOperandsAndResultType]> {
  let summary = "the same values, through which no gradient flows";
  let description = [{
    forget-gradients removes it when nothing is left to differentiate.

    ```mlir
    %d = mp.detach %x : tensor<?x64xf32, #mp.rows<0, node>>
    ```
  }];
  let arguments = (ins Mp_Table:$input);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Mp_FillOp : Mp_Op<"fill", [Pure, Mp_RowWise, Mp_CopiesOnly]> {
  let summary = "one constant in every place";
  let description = [{
    ```mlir
    %c = mp.fill 0.5 : f32 : tensor<?x64xf32, #mp.rows<0, edge>>
    ```
  }];
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mp_BroadcastOp : Mp_Op<"broadcast", [Pure, Mp_RowWise, Mp_CopiesOnly]> {
  let summary = "repeat values along axes of size 1, or for every row";
  let description = [{
    Two forms. Without row change, ranks are equal and axes of size 1 are
    repeated, as in torch; a table without rows is aligned with the trailing
    axes and repeated for every row and every missing axis.

    ```mlir
    %a = mp.broadcast %s : tensor<?x4x1xf32, #mp.rows<0, edge>>
                        -> tensor<?x4x16xf32, #mp.rows<0, edge>>
    %b = mp.broadcast %bias : tensor<64xf32> -> tensor<?x64xf32, #mp.rows<0, node>>
    ```

    Into a mailbox, a destination row (axis 1 of size 1) is repeated for each
    of its messages.

    ```mlir
    %v = mp.broadcast %x : tensor<?x1x64xf32, #mp.rows<0, node>>
                        -> tensor<?x?x64xf32, #mp.rows<0, mailbox>>
    ```
  }];
  let arguments = (ins Mp_Table:$input);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_ReshapeOp : Mp_Op<"reshape", [Pure, Mp_RowWise, Mp_CopiesOnly]> {
  let summary = "the same values under other feature axes";
  let description = [{
    Row-major order of the features is kept; the row axis (and the ragged axis
    of a mailbox) stays first.

    ```mlir
    %h = mp.reshape %x : tensor<?x64xf32, #mp.rows<0, node>>
                      -> tensor<?x4x16xf32, #mp.rows<0, node>>
    ```
  }];
  let arguments = (ins Mp_Table:$input);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_TransposeOp : Mp_Op<"transpose", [Pure, Mp_RowWise, Mp_CopiesOnly]> {
  let summary = "permute feature axes";
  let description = [{
    Axis `i` of the result is axis `permutation[i]` of `input`. Row axes (and
    the ragged axis of a mailbox) stay in place.

    ```mlir
    %t = mp.transpose %w [1, 0] : tensor<16x64xf32> -> tensor<64x16xf32>
    ```
  }];
  let arguments = (ins Mp_Table:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_SliceOp : Mp_Op<"slice", [Pure, Mp_RowWise, Mp_CopiesOnly]> {
  let summary = "a range of one feature axis";
  let description = [{
    Elements `offset`, `offset + stride`, ... of `axis`, as many as the
    result has. `axis` counts all axes of the tensor, rows included, and is
    never a row axis.

    ```mlir
    %l = mp.slice %w axis 1 from 0 by 1 : tensor<1x128xf32> -> tensor<1x64xf32>
    ```
  }];
  let arguments = (ins Mp_Table:$input, I64Attr:$axis, I64Attr:$offset,
                       I64Attr:$stride);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $input `axis` $axis `from` $offset `by` $stride attr-dict `:`
    type($input) `->` type($result)
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def Mp_ConcatOp : Mp_Op<"concat", [Pure, Mp_RowWise, Mp_CopiesOnly]> {
  let summary = "tables side by side along a feature axis";
  let description = [{
    ```mlir
    %z = mp.concat %a, %b axis 1
      : tensor<?x64xf32, #mp.rows<0, edge>>, tensor<?x32xf32, #mp.rows<0, edge>>
     -> tensor<?x96xf32, #mp.rows<0, edge>>
    ```
  }];
  let arguments = (ins Variadic<Mp_Table>:$inputs, I64Attr:$axis);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $inputs `axis` $axis attr-dict `:` type($inputs) `->` type($result)
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Mp_ReduceAxisOp : Mp_Op<"reduce_axis", [Pure, Mp_RowWise]> {
  let summary = "combine the values along one axis of each row";
  let description = [{
    The axis is dropped. It counts all axes, rows included, and is never
    the row axis; on a mailbox axis 1 is the messages (resolve-mailbox makes
    it a `reduce`). `ties` is that of `reduce`.

    ```mlir
    %n = mp.reduce_axis sum %x axis 2 : tensor<?x4x16xf32, #mp.rows<0, edge>>
                                     -> tensor<?x4xf32, #mp.rows<0, edge>>
    ```
  }];
  let arguments = (ins Mp_ReduceKind:$kind, Mp_Table:$input, I64Attr:$axis,
                       DefaultValuedAttr<Mp_Ties, "Ties::First">:$ties);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $kind $input `axis` $axis (`ties` $ties^)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Mp_SoftmaxAxisOp : Mp_Op<"softmax_axis",
    [Pure, Mp_RowWise, SameOperandsAndResultType]> {
  let summary = "normalise along one axis of each row";
  let description = [{
    ```mlir
    %a = mp.softmax_axis %s axis 1 : tensor<?x?x1xf32, #mp.rows<0, mailbox>>
    ```

    On a mailbox, axis 1 is over the messages (resolve-mailbox makes it
    a `softmax`). On a feature axis decompose-softmax spells it out.
  }];
  let arguments = (ins Mp_Table:$input, I64Attr:$axis);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = "$input `axis` $axis attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Mp_LinearOp : Mp_Op<"linear", [Pure, Mp_RowWise]> {
  let summary = "multiply the last axis of each row by a matrix";
  let description = [{
    `result[..., o] = sum_k input[..., k] * weight[k, o]`. `weight` has no
    rows. `input` may be without rows too: a product of parameters. Products of
    bf16 and f16 are summed in f32 and rounded once, and are not computed in
    kernels. Another product on nodes is a step of its own, or `in_kernel`
    computed by a kernel with what is around it; place-products decides.

    ```mlir
    %y = mp.linear %x, %w : tensor<?x64xf32, #mp.rows<0, node>>, tensor<64x16xf32>
                         -> tensor<?x16xf32, #mp.rows<0, node>>
    ```
  }];
  let arguments = (ins Mp_Table:$input, Mp_Table:$weight, UnitAttr:$in_kernel);
  let results = (outs Mp_Table:$result);
  let assemblyFormat = [{
    $input `,` $weight (`in_kernel` $in_kernel^)? attr-dict `:`
    type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===- kernels -------------------------------------------------------------===//

def Mp_KernelOp : Mp_Op<"kernel", [IsolatedFromAbove, SingleBlock, Pure]> {
  let summary = "one pass over the rows of a node set and their edges";
  let description = [{
    Made by form-kernels. The body is ordinary mp ops; its block arguments are
    the kernel's inputs. It runs once per row of `rows`, independently of all
    other rows:

    - `end` dst: rows are destinations; edge tables are visited through the
      in-edges of the row. `end` src: rows are sources and edges are the row's
      out-edges. reduce, degree and fill_isolated in the body have that end.
    - a gather from the kernel's own end is the row itself; a gather from the
      other end reads a kernel input, never a value computed in the body.
    - sum_rows and contract_rows in the body add up over all rows the kernel
      visits; they are read by the yield only.
    - `over params` (no `rows`): the body holds tables without rows only and runs
      once.

    ```mlir
    %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x)
        : (tensor<?x64xf32, #mp.rows<0, node>>)
       -> tensor<?x64xf32, #mp.rows<0, node>> {
      %m = mp.gather src %in : tensor<?x64xf32, #mp.rows<0, node>>
                            -> tensor<?x64xf32, #mp.rows<0, edge>>
      %s = mp.reduce sum dst %m : tensor<?x64xf32, #mp.rows<0, edge>>
                               -> tensor<?x64xf32, #mp.rows<0, node>>
      mp.yield %s : tensor<?x64xf32, #mp.rows<0, node>>
    }
    ```
  }];
  let arguments = (ins Variadic<Mp_Table>:$inputs,
                       OptionalAttr<Mp_RowsAttr>:$rows,
                       DefaultValuedAttr<Mp_End, "End::Dst">:$end);
  let results = (outs Variadic<Mp_Table>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Mp_YieldOp : Mp_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "the tables a kernel writes";
  let arguments = (ins Variadic<Mp_Table>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
