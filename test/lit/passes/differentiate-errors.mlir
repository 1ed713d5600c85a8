// RUN: gossamer-opt %s --mp-differentiate="wrt=0" --split-input-file --verify-diagnostics

#edge = #mp.rows<0, edge>
func.func @mailbox(%m: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #mp.rows<0, node>> {
  // expected-error @below {{cannot be differentiated: run resolve-mailbox first}}
  %b = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #mp.rows<0, mailbox>>
  %s = mp.reduce_axis sum %b axis 1 : tensor<?x?x4xf32, #mp.rows<0, mailbox>> -> tensor<?x4xf32, #mp.rows<0, node>>
  return %s : tensor<?x4xf32, #mp.rows<0, node>>
}

// -----

#node = #mp.rows<0, node>
func.func @kernel(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{cannot be differentiated: differentiate before form-kernels}}
  %h = mp.kernel over #node by dst (%in = %x) : (tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
    mp.yield %in : tensor<?x4xf32, #node>
  }
  return %h : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
func.func @unknown(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{has no derivative yet}}
  %h = math.cbrt %x : tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// -----

// expected-error @below {{has no floating point argument 0 to differentiate}}
func.func @integers(%x: tensor<?xi64, #mp.rows<0, node>>) -> tensor<?xi64, #mp.rows<0, node>> {
  return %x : tensor<?xi64, #mp.rows<0, node>>
}

// -----

#node = #mp.rows<0, node>
func.func @in_bf16(%x: tensor<?x4xbf16, #node>) -> tensor<?x4xbf16, #node> {
  // expected-error @below {{has no gradient in 'bf16'; widen its operands with arith.extf}}
  %h = arith.mulf %x, %x : tensor<?x4xbf16, #node>
  return %h : tensor<?x4xbf16, #node>
}
