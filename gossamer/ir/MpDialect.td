//===- the mp dialect: message passing over rows of a graph ----------------===//
#ifndef GOSSAMER_IR_MPDIALECT_TD
#define GOSSAMER_IR_MPDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/AttrTypeBase.td"

def Mp_Dialect : Dialect {
  let name = "mp";
  let cppNamespace = "::gossamer::mp";
  let summary = "message passing on graphs";
  let description = [{
    A value of this dialect is a table: one row per source node, destination
    node, edge or mailbox slot of a graph, or one row for all of them
    (parameters). Which rows a table has is part of its type, as the encoding
    of a builtin ranked tensor:

    ```mlir
    tensor<?x4x16xf32, #mp.rows<0, edge>>   // per edge of graph argument 0
    tensor<?x64xf32, #mp.rows<0, node>>     // per node of a homogeneous graph
    tensor<?x?x64xf32, #mp.rows<0, mailbox>>// per node, per incoming message
    tensor<64x16xf32>                       // the same for every row
    ```

    Elementwise arithmetic on tables of one type is `arith` and `math`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Mp_RowKind : I32EnumAttr<"RowKind", "the set of rows a table has", [
    I32EnumAttrCase<"Src", 0, "src">, I32EnumAttrCase<"Dst", 1, "dst">,
    I32EnumAttrCase<"Node", 2, "node">, I32EnumAttrCase<"Edge", 3, "edge">,
    I32EnumAttrCase<"Mailbox", 4, "mailbox">]> {
  let cppNamespace = "::gossamer::mp";
}

def Mp_End : I32EnumAttr<"End", "an end of an edge", [
    I32EnumAttrCase<"Src", 0, "src">, I32EnumAttrCase<"Dst", 1, "dst">]> {
  let cppNamespace = "::gossamer::mp";
}

def Mp_ReduceKind : I32EnumAttr<"ReduceKind", "how values are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"Prod", 4, "prod">]> {
  let cppNamespace = "::gossamer::mp";
}

def Mp_Ties : I32EnumAttr<"Ties",
    "which of several equal extrema get the gradient", [
    I32EnumAttrCase<"First", 0, "first">, I32EnumAttrCase<"Even", 1, "even">]> {
  let cppNamespace = "::gossamer::mp";
}

def Mp_RowsAttr : AttrDef<Mp_Dialect, "Rows"> {
  let mnemonic = "rows";
  let summary = "which rows a table has";
  let description = [{
    `graph` is the index of the graph argument of the function. `kind` is
    the row set: `src` and `dst` of a bipartite relation, `node` for a
    relation whose ends are the same nodes, `edge`, or `mailbox`: the rows of
    the destination, with the messages of each on a ragged axis 1.
    `relations` are ids of the relations the rows span, `[0]` when left out.
  }];
  let parameters = (ins "int64_t":$graph, EnumParameter<Mp_RowKind>:$kind,
      OptionalArrayRefParameter<"int64_t">:$relations);
  let assemblyFormat = "`<` $graph `,` $kind (`,` `[` $relations^ `]`)? `>`";
}

#endif
