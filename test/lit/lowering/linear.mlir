// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s
// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=16 accumulators=8' | FileCheck %s --check-prefix=SSE

// A product of rows: blocks of 64 rows, tiles of 4 rows and all columns in
// registers, one loop over k. The bias is added to the rows of the block. Sums
// wait in scratch: 64 rows of 40 floats. The last 8 columns are a vector of
// their own.
#node = #mp.rows<0, node>
// CHECK-LABEL: func.func @dense
// CHECK:         mp.scratch_bytes = 10368 : i64
// CHECK-LABEL: func.func @kernel_0
// CHECK:         %[[BLOCK:.*]] = arith.constant 64 : i64
// CHECK:         scf.for {{.*}} step %[[BLOCK]] : i64
// CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<8xf32>, vector<16xf32>, vector<16xf32>, vector<8xf32>, vector<16xf32>, vector<16xf32>, vector<8xf32>, vector<16xf32>, vector<16xf32>, vector<8xf32>)
// CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<8xf32>)
// CHECK:           scf.for
// CHECK:             arith.addf
// CHECK:         return
func.func @dense(%x: tensor<?x20xf32, #node>, %w: tensor<20x40xf32>, %b: tensor<40xf32>) -> tensor<?x40xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %v = %w, %c = %b) : (tensor<?x20xf32, #node>, tensor<20x40xf32>, tensor<40xf32>) -> tensor<?x40xf32, #node> {
    %l = mp.linear %in, %v in_kernel : tensor<?x20xf32, #node>, tensor<20x40xf32> -> tensor<?x40xf32, #node>
    %cb = mp.broadcast %c : tensor<40xf32> -> tensor<?x40xf32, #node>
    %y = arith.addf %l, %cb : tensor<?x40xf32, #node>
    mp.yield %y : tensor<?x40xf32, #node>
  }
  return %h : tensor<?x40xf32, #node>
}

// -----

// Columns that are no power of two are one vector, loaded under a mask and
// stored in parts; without masked loads they are vectors of powers of two.
#node = #mp.rows<0, node>
// CHECK-LABEL: func.func @kernel_0
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK:   llvm.intr.masked.load
// CHECK-NOT: llvm.intr.masked.load
// CHECK: llvm.store {{.*}} : vector<4xf32>
// CHECK: llvm.store {{.*}} : vector<2xf32>
// CHECK: llvm.store {{.*}} : f32
// SSE-LABEL: func.func @kernel_0
// SSE: scf.for {{.*}} -> (vector<4xf32>, vector<2xf32>, f32,
// SSE-NOT: masked
func.func @seven(%x: tensor<?x5xf32, #node>, %w: tensor<5x7xf32>) -> tensor<?x7xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %v = %w) : (tensor<?x5xf32, #node>, tensor<5x7xf32>) -> tensor<?x7xf32, #node> {
    %l = mp.linear %in, %v in_kernel : tensor<?x5xf32, #node>, tensor<5x7xf32> -> tensor<?x7xf32, #node>
    mp.yield %l : tensor<?x7xf32, #node>
  }
  return %h : tensor<?x7xf32, #node>
}

// -----

// Sums over edges wait in scratch for the product of their block.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     scf.for
// CHECK:       llvm.intr.prefetch
// CHECK:   scf.for
// CHECK:     scf.for {{.*}} iter_args
func.func @sum_then_product(%x: tensor<?x16xf32, #node>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %v = %w) : (tensor<?x16xf32, #node>, tensor<16x16xf32>) -> tensor<?x16xf32, #node> {
    %m = mp.gather src %in : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
    %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
    %l = mp.linear %s, %v in_kernel : tensor<?x16xf32, #node>, tensor<16x16xf32> -> tensor<?x16xf32, #node>
    mp.yield %l : tensor<?x16xf32, #node>
  }
  return %h : tensor<?x16xf32, #node>
}

// -----

// Edge values that are read after the product wait for one row only, so rows go
// one by one.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT: arith.constant 64 : i64
// CHECK: return
func.func @edge_values_across(%x: tensor<?x4xf32, #edge>, %w: tensor<4x4xf32>) -> tensor<?x4xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %v = %w) : (tensor<?x4xf32, #edge>, tensor<4x4xf32>) -> tensor<?x4xf32, #node> {
    %e = math.exp %in : tensor<?x4xf32, #edge>
    %s = mp.reduce sum dst %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    %l = mp.linear %s, %v in_kernel : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
    %g = mp.gather dst %l : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
    %p = arith.mulf %e, %g : tensor<?x4xf32, #edge>
    %t = mp.reduce sum dst %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    mp.yield %t : tensor<?x4xf32, #node>
  }
  return %h : tensor<?x4xf32, #node>
}
