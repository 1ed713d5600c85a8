// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s

// While it multiplies four rows of sums, 16 steps at a time, a product asks for
// what the sweep over the same rows of the next block reads, two cache lines an
// edge: half of the edges in each 16 of 32 steps, and at most 256 of them. None
// when the call prefetches nothing.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-SAME:    (%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %[[END:.*]]: i64,
// CHECK:         scf.for %[[BLOCK:.*]] = {{.*}} : i64 {
// CHECK:           scf.for
// CHECK-COUNT-2:     llvm.intr.prefetch
// CHECK:           scf.for %[[ROW:.*]] = {{.*}} step %c4{{.*}} : i64 {
// CHECK:             %[[HERE:.*]] = arith.addi %[[BLOCK]], %[[ROW]] : i64
// CHECK-NEXT:        %[[ROWS:.*]] = arith.constant 64 : i64
// CHECK-NEXT:        %[[NEXT:.*]] = arith.addi %[[HERE]], %[[ROWS]] : i64
// CHECK:             arith.minsi %[[NEXT]], %[[END]] : i64
// CHECK:             %[[MOST:.*]] = arith.constant 256 : i64
// CHECK:             %[[TAKEN:.*]] = arith.minsi %{{.*}}, %[[MOST]] : i64
// CHECK:             %[[FAR:.*]] = arith.cmpi sgt
// CHECK:             %[[EDGES:.*]] = arith.select %[[FAR]], %[[TAKEN]], %{{.*}} : i64
// CHECK:             scf.for %{{.*}} step %{{.*}} iter_args
// CHECK:               arith.muli %[[EDGES]]
// CHECK:               scf.for
// CHECK-COUNT-2:         llvm.intr.prefetch
// CHECK-NOT:             llvm.intr.prefetch
// CHECK:               scf.for
// CHECK-COUNT-8:         arith.mulf
// CHECK:         return
func.func @after_sweep(%x: tensor<?x32xf32, #node>, %w: tensor<32x32xf32>) -> tensor<?x32xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %v = %w) : (tensor<?x32xf32, #node>, tensor<32x32xf32>) -> tensor<?x32xf32, #node> {
    %m = mp.gather src %in : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %s = mp.reduce sum dst %m : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    %l = mp.linear %s, %v in_kernel : tensor<?x32xf32, #node>, tensor<32x32xf32> -> tensor<?x32xf32, #node>
    mp.yield %l : tensor<?x32xf32, #node>
  }
  return %h : tensor<?x32xf32, #node>
}

// -----

// A product that the sweep of its block follows asks for what that one reads:
// the edges of the rows that it multiplies.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-SAME:    (%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %[[END:.*]]: i64,
// CHECK:         scf.for %[[BLOCK:.*]] = {{.*}} : i64 {
// CHECK:           scf.for %[[ROW:.*]] = {{.*}} step %c4{{.*}} : i64 {
// CHECK:             %[[HERE:.*]] = arith.addi %[[BLOCK]], %[[ROW]] : i64
// CHECK:             arith.minsi %[[HERE]], %[[END]] : i64
// CHECK-COUNT-2:     llvm.intr.prefetch
// CHECK-COUNT-8:     arith.mulf
// CHECK:         return
func.func @before_sweep(%x: tensor<?x32xf32, #node>, %z: tensor<?x32xf32, #node>, %w: tensor<32x32xf32>) -> tensor<?x32xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %other = %z, %v = %w) : (tensor<?x32xf32, #node>, tensor<?x32xf32, #node>, tensor<32x32xf32>) -> tensor<?x32xf32, #node> {
    %l = mp.linear %in, %v in_kernel : tensor<?x32xf32, #node>, tensor<32x32xf32> -> tensor<?x32xf32, #node>
    %m = mp.gather src %other : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %s = mp.reduce max dst %m : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    %y = arith.addf %l, %s : tensor<?x32xf32, #node>
    mp.yield %y : tensor<?x32xf32, #node>
  }
  return %h : tensor<?x32xf32, #node>
}

// -----

// Of 200 columns some are multiplied after the others, and each of them asks
// for its part in each of 5 times: 72 steps are 4 times 16 and 8.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-COUNT-2:     llvm.intr.prefetch
// CHECK:           %[[ALL:.*]] = arith.constant 1000 : i64
// CHECK-NEXT:      arith.divui %{{.*}}, %[[ALL]] : i64
// CHECK:         return
func.func @columns(%x: tensor<?x32xf32, #node>, %z: tensor<?x72xf32, #node>, %w: tensor<72x200xf32>) -> (tensor<?x32xf32, #node>, tensor<?x200xf32, #node>) attributes {mp.graphs = 1 : i64} {
  %h:2 = mp.kernel over #node by dst (%in = %x, %other = %z, %v = %w) : (tensor<?x32xf32, #node>, tensor<?x72xf32, #node>, tensor<72x200xf32>) -> (tensor<?x32xf32, #node>, tensor<?x200xf32, #node>) {
    %m = mp.gather src %in : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %s = mp.reduce sum dst %m : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    %l = mp.linear %other, %v in_kernel : tensor<?x72xf32, #node>, tensor<72x200xf32> -> tensor<?x200xf32, #node>
    mp.yield %s, %l : tensor<?x32xf32, #node>, tensor<?x200xf32, #node>
  }
  return %h#0, %h#1 : tensor<?x32xf32, #node>, tensor<?x200xf32, #node>
}

// -----

// A weight of 256 KiB would push out what the product asks for: only the sweep
// asks.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT:     llvm.intr.prefetch
// CHECK:         arith.mulf
// CHECK:         llvm.intr.prefetch
// CHECK:         return
func.func @large_weight(%x: tensor<?x256xf32, #node>, %z: tensor<?x32xf32, #node>, %w: tensor<256x256xf32>) -> (tensor<?x256xf32, #node>, tensor<?x32xf32, #node>) attributes {mp.graphs = 1 : i64} {
  %h:2 = mp.kernel over #node by dst (%in = %x, %other = %z, %v = %w) : (tensor<?x256xf32, #node>, tensor<?x32xf32, #node>, tensor<256x256xf32>) -> (tensor<?x256xf32, #node>, tensor<?x32xf32, #node>) {
    %l = mp.linear %in, %v in_kernel : tensor<?x256xf32, #node>, tensor<256x256xf32> -> tensor<?x256xf32, #node>
    %m = mp.gather src %other : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %s = mp.reduce max dst %m : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    mp.yield %l, %s : tensor<?x256xf32, #node>, tensor<?x32xf32, #node>
  }
  return %h#0, %h#1 : tensor<?x256xf32, #node>, tensor<?x32xf32, #node>
}

// -----

// Without rows that lie anywhere there is nothing to ask for.
#node = #mp.rows<0, node>
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT:     llvm.intr.prefetch
// CHECK:         return
func.func @no_edges(%x: tensor<?x32xf32, #node>, %w: tensor<32x32xf32>) -> tensor<?x32xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %v = %w) : (tensor<?x32xf32, #node>, tensor<32x32xf32>) -> tensor<?x32xf32, #node> {
    %l = mp.linear %in, %v in_kernel : tensor<?x32xf32, #node>, tensor<32x32xf32> -> tensor<?x32xf32, #node>
    mp.yield %l : tensor<?x32xf32, #node>
  }
  return %h : tensor<?x32xf32, #node>
}
