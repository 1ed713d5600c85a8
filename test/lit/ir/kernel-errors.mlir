// RUN: gossamer-opt %s --verify-diagnostics --split-input-file

// What the body of a kernel may not hold.

#node = #mp.rows<0, node>
func.func @no_such_end(%x: tensor<?x4xf32, #node>) {
  // expected-error @below {{expects src or dst after 'by'}}
  %y = mp.kernel over #node by left (%a = %x) : (tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
    mp.yield %a : tensor<?x4xf32, #node>
  }
  return
}

// -----

#node = #mp.rows<0, node>
func.func @too_few_types(%x: tensor<?x4xf32, #node>) {
  // expected-error @below {{expects 1 input types}}
  %y = mp.kernel over #node by dst (%a = %x) : () -> tensor<?x4xf32, #node> {
    mp.yield %a : tensor<?x4xf32, #node>
  }
  return
}

// -----

#node = #mp.rows<0, node>
func.func @yields_another_type(%x: tensor<?x4xf32, #node>) {
  // expected-error @below {{expects to yield its result types}}
  %y = mp.kernel over #node by dst (%a = %x) : (tensor<?x4xf32, #node>) -> tensor<?x8xf32, #node> {
    mp.yield %a : tensor<?x4xf32, #node>
  }
  return
}

// -----

// The other end of an edge is another row, which this kernel may not have
// reached yet.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @reads_unfinished_rows(%x: tensor<?x4xf32, #node>) {
  %y = mp.kernel over #node by dst (%a = %x) : (tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
    %e = math.exp %a : tensor<?x4xf32, #node>
    // expected-error @below {{reads rows at the other end that this kernel computes}}
    %m = mp.gather src %e : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
    %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    mp.yield %s : tensor<?x4xf32, #node>
  }
  return
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @reduces_to_the_other_end(%m: tensor<?x4xf32, #edge>) {
  %y = mp.kernel over #node by dst (%a = %m) : (tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
    // expected-error @below {{expects dst, the end of its kernel}}
    %s = mp.reduce sum src %a : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    mp.yield %s : tensor<?x4xf32, #node>
  }
  return
}

// -----

#node = #mp.rows<0, node>
func.func @another_graph(%x: tensor<?x4xf32, #mp.rows<1, node>>) {
  %y = mp.kernel over #node by dst (%a = %x) : (tensor<?x4xf32, #mp.rows<1, node>>) -> tensor<?x4xf32, #mp.rows<1, node>> {
    // expected-error @below {{has rows that its kernel does not visit}}
    %e = math.exp %a : tensor<?x4xf32, #mp.rows<1, node>>
    mp.yield %e : tensor<?x4xf32, #mp.rows<1, node>>
  }
  return
}

// -----

#node = #mp.rows<0, node>
func.func @rows_over_params(%x: tensor<?x4xf32, #node>) {
  %y = mp.kernel over params (%a = %x) : (tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
    // expected-error @below {{has rows that its kernel does not visit}}
    %e = math.exp %a : tensor<?x4xf32, #node>
    mp.yield %e : tensor<?x4xf32, #node>
  }
  return
}

// -----

#node = #mp.rows<0, node>
func.func @reads_an_unfinished_total(%x: tensor<?x4xf32, #node>) {
  %y = mp.kernel over #node by dst (%a = %x) : (tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
    // expected-error @below {{is complete after the last row only, so it is yielded once and not read}}
    %s = mp.sum_rows %a : tensor<?x4xf32, #node> -> tensor<4xf32>
    %b = mp.broadcast %s : tensor<4xf32> -> tensor<?x4xf32, #node>
    mp.yield %b : tensor<?x4xf32, #node>
  }
  return
}

// -----

// A kernel over destinations does not see every source once.
func.func @sums_rows_of_the_other_end(%x: tensor<?x4xf32, #mp.rows<0, src>>) {
  %y = mp.kernel over #mp.rows<0, dst> by dst (%a = %x) : (tensor<?x4xf32, #mp.rows<0, src>>) -> tensor<4xf32> {
    // expected-error @below {{sums rows that its kernel does not visit}}
    %s = mp.sum_rows %a : tensor<?x4xf32, #mp.rows<0, src>> -> tensor<4xf32>
    mp.yield %s : tensor<4xf32>
  }
  return
}
