// RUN: gossamer-opt %s --split-input-file --verify-diagnostics --mp-lower-kernels

// There is nothing to compute, and no stage to compute it.
func.func @no_features(%x: tensor<?x0xf32, #mp.rows<0, node>>) -> tensor<?x0xf32, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x0xf32, #mp.rows<0, node>>) -> tensor<?x0xf32, #mp.rows<0, node>> {
    // expected-error @below {{has a table without features}}
    %f = math.exp %in : tensor<?x0xf32, #mp.rows<0, node>>
    mp.yield %f : tensor<?x0xf32, #mp.rows<0, node>>
  }
  return %h : tensor<?x0xf32, #mp.rows<0, node>>
}

// -----

// Numbers that differ are a parameter, so that code does not depend on them.
func.func @table(%x: tensor<?x2xf32, #mp.rows<0, node>>) -> tensor<?x2xf32, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x2xf32, #mp.rows<0, node>>) -> tensor<?x2xf32, #mp.rows<0, node>> {
    // expected-error @below {{is not the same value everywhere; pass it as an argument}}
    %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = mp.broadcast %c : tensor<2xf32> -> tensor<?x2xf32, #mp.rows<0, node>>
    %s = arith.addf %in, %b : tensor<?x2xf32, #mp.rows<0, node>>
    mp.yield %s : tensor<?x2xf32, #mp.rows<0, node>>
  }
  return %h : tensor<?x2xf32, #mp.rows<0, node>>
}

// -----

func.func @total_of_integers(%x: tensor<?x2xi64, #mp.rows<0, node>>) -> tensor<2xi64> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x2xi64, #mp.rows<0, node>>) -> tensor<2xi64> {
    // expected-error @below {{over all rows; such a sum is float32 or float64}}
    %s = mp.sum_rows %in : tensor<?x2xi64, #mp.rows<0, node>> -> tensor<2xi64>
    mp.yield %s : tensor<2xi64>
  }
  return %h : tensor<2xi64>
}

// -----

func.func @sum_of_bf16(%x: tensor<?x2xbf16, #mp.rows<0, node>>) -> tensor<?x2xbf16, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x2xbf16, #mp.rows<0, node>>) -> tensor<?x2xbf16, #mp.rows<0, node>> {
    // expected-error @below {{does not compute in 'bf16'; widen its operands with arith.extf}}
    %s = arith.addf %in, %in : tensor<?x2xbf16, #mp.rows<0, node>>
    mp.yield %s : tensor<?x2xbf16, #mp.rows<0, node>>
  }
  return %h : tensor<?x2xbf16, #mp.rows<0, node>>
}
