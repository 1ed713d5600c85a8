//===- ops along the features of rows --------------------------------------===//

include "gossamer/ir/MpOp.td"

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
