// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s

// Attention over 4 heads. Scores and their exp cross sweeps, 16 bytes each per
// edge of a row; exp runs on vectors of 4 edges x 4 heads, never per edge.
// CHECK-LABEL: func.func @gat
// CHECK:         mp.scratch_bytes_per_degree = 32 : i64
// CHECK-LABEL: func.func @kernel_0
// CHECK:         arith.maximumf {{.*}} : vector<16xf32>
// CHECK:         math.exp {{.*}} : vector<16xf32>
// CHECK-NOT:     math.exp
// CHECK:         vector.broadcast {{.*}} : f32 to vector<16xf32>
// CHECK:         return
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @gat(%x: tensor<?x4x16xf32, #node>, %l: tensor<?x4x1xf32, #node>) -> tensor<?x4x16xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %left = %l) : (tensor<?x4x16xf32, #node>, tensor<?x4x1xf32, #node>) -> tensor<?x4x16xf32, #node> {
    %e = mp.gather src %left : tensor<?x4x1xf32, #node> -> tensor<?x4x1xf32, #edge>
    %n = arith.negf %e : tensor<?x4x1xf32, #edge>
    %m = mp.reduce max dst %n : tensor<?x4x1xf32, #edge> -> tensor<?x4x1xf32, #node>
    %c = mp.gather dst %m : tensor<?x4x1xf32, #node> -> tensor<?x4x1xf32, #edge>
    %d = arith.subf %n, %c : tensor<?x4x1xf32, #edge>
    %p = math.exp %d : tensor<?x4x1xf32, #edge>
    %b = mp.broadcast %p : tensor<?x4x1xf32, #edge> -> tensor<?x4x16xf32, #edge>
    %g = mp.gather src %in : tensor<?x4x16xf32, #node> -> tensor<?x4x16xf32, #edge>
    %w = arith.mulf %g, %b : tensor<?x4x16xf32, #edge>
    %s = mp.reduce sum dst %w : tensor<?x4x16xf32, #edge> -> tensor<?x4x16xf32, #node>
    mp.yield %s : tensor<?x4x16xf32, #node>
  }
  return %h : tensor<?x4x16xf32, #node>
}

// -----

// A wide cheap value of two sweeps is computed twice and never stored.
// CHECK-LABEL: func.func @centred
// CHECK:         mp.scratch_bytes_per_degree = 0 : i64
// CHECK-LABEL: func.func @kernel_0
// CHECK-COUNT-2: llvm.intr.prefetch
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @centred(%x: tensor<?x32xf32, #node>) -> tensor<?x32xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x) : (tensor<?x32xf32, #node>) -> tensor<?x32xf32, #node> {
    %e = mp.gather src %in : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %n = arith.negf %e : tensor<?x32xf32, #edge>
    %m = mp.reduce mean dst %n : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    %c = mp.gather dst %m : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %d = arith.subf %n, %c : tensor<?x32xf32, #edge>
    %s = mp.reduce max dst %d : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    mp.yield %s : tensor<?x32xf32, #node>
  }
  return %h : tensor<?x32xf32, #node>
}

// -----

// What a product on edges gives is a buffer of one block: 256 edges x 32
// features x 4 bytes, and the padding. It does not grow with the degree.
// CHECK-LABEL: func.func @mlp
// CHECK:         mp.scratch_bytes = 32896 : i64, mp.scratch_bytes_per_degree = 0 : i64
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
func.func @mlp(%x: tensor<?x8xf32, #node>, %w: tensor<8x32xf32>) -> tensor<?x32xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %weight = %w) : (tensor<?x8xf32, #node>, tensor<8x32xf32>) -> tensor<?x32xf32, #node> {
    %e = mp.gather src %in : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
    %y = mp.linear %e, %weight : tensor<?x8xf32, #edge>, tensor<8x32xf32> -> tensor<?x32xf32, #edge>
    %s = mp.reduce max dst %y : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    mp.yield %s : tensor<?x32xf32, #node>
  }
  return %h : tensor<?x32xf32, #node>
}

// -----

// A dot product per edge reads a neighbour's row first: it asks for the rows of
// later edges, a line for each head, before the first op on this one's.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @dot_attention
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT:     arith.mulf
// CHECK:         llvm.intr.prefetch
// CHECK:         arith.mulf {{.*}} : vector<16xf32>
func.func @dot_attention(%z: tensor<?x4x16xf32, #node>) -> tensor<?x4xf32, #node> {
  %h = mp.kernel over #node by dst (%x = %z) : (tensor<?x4x16xf32, #node>) -> tensor<?x4xf32, #node> {
    %u = mp.gather src %x : tensor<?x4x16xf32, #node> -> tensor<?x4x16xf32, #edge>
    %v = mp.gather dst %x : tensor<?x4x16xf32, #node> -> tensor<?x4x16xf32, #edge>
    %p = arith.mulf %u, %v : tensor<?x4x16xf32, #edge>
    %d = mp.reduce_axis sum %p axis 2 : tensor<?x4x16xf32, #edge> -> tensor<?x4xf32, #edge>
    %e = math.exp %d : tensor<?x4xf32, #edge>
    %s = mp.reduce sum dst %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    mp.yield %s : tensor<?x4xf32, #node>
  }
  return %h : tensor<?x4xf32, #node>
}
