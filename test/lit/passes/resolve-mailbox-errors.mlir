// RUN: gossamer-opt %s --mp-resolve-mailbox --split-input-file --verify-diagnostics

// A mailbox has another number of messages in each row: it cannot be a table.
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
func.func @returned(%m: tensor<?x4xf32, #edge>) -> tensor<?x?x4xf32, #box> {
  %b = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  // expected-error @below {{reads a mailbox as a whole, but nodes have different numbers of messages; reduce it over axis 1, or write an op that treats each message alone}}
  return %b : tensor<?x?x4xf32, #box>
}

// -----

#box = #mp.rows<0, mailbox>
// expected-error @below {{takes a mailbox, but a mailbox is made by mp.mailbox from rows of edges}}
func.func @taken(%b: tensor<?x?x4xf32, #box>) -> tensor<?x4xf32, #mp.rows<0, node>> {
  %s = mp.reduce_axis sum %b axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #mp.rows<0, node>>
  return %s : tensor<?x4xf32, #mp.rows<0, node>>
}
