// RUN: gossamer-opt %s --mp-verify-kernels --split-input-file --verify-diagnostics

#node = #mp.rows<0, node>
func.func @outside(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // expected-error @below {{'math.exp' op is not in a kernel; run form-kernels}}
  %y = math.exp %x : tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @product_on_edges(%x: tensor<?x4xf32, #edge>, %w: tensor<4x4xf32>) -> tensor<?x4xf32, #edge> {
  // expected-error @below {{'mp.linear' op is not in a kernel; run form-kernels}}
  %y = mp.linear %x, %w : tensor<?x4xf32, #edge>, tensor<4x4xf32> -> tensor<?x4xf32, #edge>
  return %y : tensor<?x4xf32, #edge>
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @softmax_inside(%x: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #edge> {
  %y = mp.kernel over #node by dst (%a = %x) : (tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #edge> {
    // expected-error @below {{'mp.softmax' op cannot be part of a kernel; an earlier pass should have replaced it}}
    %s = mp.softmax dst %a : tensor<?x4xf32, #edge>
    mp.yield %s : tensor<?x4xf32, #edge>
  }
  return %y : tensor<?x4xf32, #edge>
}

// -----

// A product on nodes is a step of its own.
#node = #mp.rows<0, node>
func.func @product_inside(%x: tensor<?x4xf32, #node>, %w: tensor<4x4xf32>) -> tensor<?x4xf32, #node> {
  %y = mp.kernel over #node by dst (%a = %x, %b = %w) : (tensor<?x4xf32, #node>, tensor<4x4xf32>) -> tensor<?x4xf32, #node> {
    // expected-error @below {{'mp.linear' op cannot be part of a kernel; an earlier pass should have replaced it}}
    %s = mp.linear %a, %b : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
    mp.yield %s : tensor<?x4xf32, #node>
  }
  return %y : tensor<?x4xf32, #node>
}

// -----

// expected-error @below {{expects one block}}
func.func private @declaration(tensor<4xf32>)

// -----

// Only differentiate reads detach, and it runs earlier.
#node = #mp.rows<0, node>
func.func @detach_in_kernel(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %h = mp.kernel over #node by dst (%in = %x) : (tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
    // expected-error @below {{cannot be part of a kernel; an earlier pass should have replaced it}}
    %d = mp.detach %in : tensor<?x4xf32, #node>
    mp.yield %d : tensor<?x4xf32, #node>
  }
  return %h : tensor<?x4xf32, #node>
}

// -----

// The program checks an index before the kernel runs, so no kernel makes it.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @computed_index(%w: tensor<8x4xf32>, %t: tensor<?xi64, #edge>) -> tensor<?x4xf32, #edge> {
  %y = mp.kernel over #node by dst (%a = %w, %i = %t) : (tensor<8x4xf32>, tensor<?xi64, #edge>) -> tensor<?x4xf32, #edge> {
    %j = arith.addi %i, %i : tensor<?xi64, #edge>
    // expected-error @below {{'mp.lookup' op cannot be part of a kernel}}
    %s = mp.lookup %a at %j : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf32, #edge>
    mp.yield %s : tensor<?x4xf32, #edge>
  }
  return %y : tensor<?x4xf32, #edge>
}
