//===- operations of the mp dialect ----------------------------------------===//
#ifndef GOSSAMER_IR_MPOPS_TD
#define GOSSAMER_IR_MPOPS_TD

include "gossamer/ir/MpRowOps.td"
include "gossamer/ir/MpFeatureOps.td"

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
