// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=32 accumulators=8' | FileCheck %s

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// 64 features are 16 counters, two vectors of 8: each makes ten rounds of two
// products, once for four vectors of numbers. The seed is loaded before the
// loops over edges.
// CHECK-LABEL: func.func @kernel_0
// CHECK:         llvm.load {{.*}} -> i64
// CHECK:         scf.for {{.*}} iter_args
// CHECK-COUNT-40:    arith.mului_extended {{.*}} : vector<8xi32>
// CHECK-NOT:         arith.mului_extended
// CHECK:         return
func.func @wide(%seed: tensor<i64>) -> tensor<?x64xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%s = %seed) : (tensor<i64>) -> tensor<?x64xf32, #node> {
    %u = mp.uniform %s stream 0 : tensor<?x64xf32, #edge>
    %r = mp.reduce sum dst %u : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
    mp.yield %r : tensor<?x64xf32, #node>
  }
  return %h : tensor<?x64xf32, #node>
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// Four numbers per edge are one counter: eight edges at a time.
// CHECK-LABEL: func.func @kernel_0
// CHECK:         scf.for
// CHECK-COUNT-20:  arith.mului_extended {{.*}} : vector<8xi32>
// CHECK-NOT:       arith.mului_extended
// CHECK:           llvm.store {{.*}} : vector<32xf32>, !llvm.ptr
// CHECK:         return
func.func @narrow(%seed: tensor<i64>) -> tensor<?x4xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%s = %seed) : (tensor<i64>) -> tensor<?x4xf32, #node> {
    %u = mp.uniform %s stream 0 : tensor<?x4xf32, #edge>
    %r = mp.reduce sum dst %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    mp.yield %r : tensor<?x4xf32, #node>
  }
  return %h : tensor<?x4xf32, #node>
}
