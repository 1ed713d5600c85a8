//===- ops that move, count or add up rows ---------------------------------===//

include "gossamer/ir/MpOp.td"

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
