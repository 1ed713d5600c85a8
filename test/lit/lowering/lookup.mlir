// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s

// A row by number: the number of the edge is loaded, kept inside the table, and
// the row is read in place. Nothing is copied per edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           %[[LOADED:.*]] = llvm.load {{.*}} -> i64
// CHECK:           %[[LEAST:.*]] = arith.maxsi %[[LOADED]]
// CHECK:           %[[MOST:.*]] = arith.constant 7 : i64
// CHECK:           %[[ROW:.*]] = arith.minsi %[[LEAST]], %[[MOST]]
// CHECK:           arith.muli %[[ROW]]
// CHECK:           llvm.load {{.*}} -> vector<16xf32>
// CHECK-NOT:       llvm.store
// CHECK:           arith.addf
func.func @by_number(%t: tensor<?xi64, #edge>, %w: tensor<8x16xf32>) -> tensor<?x16xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %w) : (tensor<?xi64, #edge>, tensor<8x16xf32>) -> tensor<?x16xf32, #node> {
    %r = mp.lookup %a at %i : tensor<8x16xf32>, tensor<?xi64, #edge> -> tensor<?x16xf32, #edge>
    %s = mp.reduce sum dst %r : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
    mp.yield %s : tensor<?x16xf32, #node>
  }
  return %h : tensor<?x16xf32, #node>
}

// -----

// Negative numbers count from the end.
#node = #mp.rows<0, node>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         %[[LOADED:.*]] = llvm.load {{.*}} -> i32
// CHECK:         %[[WIDE:.*]] = arith.extsi %[[LOADED]]
// CHECK:         %[[NEGATIVE:.*]] = arith.cmpi slt, %[[WIDE]]
// CHECK:         %[[COUNTED:.*]] = arith.addi %[[WIDE]]
// CHECK:         arith.select %[[NEGATIVE]], %[[COUNTED]], %[[WIDE]]
func.func @from_end(%t: tensor<?xi32, #node>, %w: tensor<8x16xf32>) -> tensor<?x16xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %w) : (tensor<?xi32, #node>, tensor<8x16xf32>) -> tensor<?x16xf32, #node> {
    %r = mp.lookup %a at %i from_end : tensor<8x16xf32>, tensor<?xi32, #node> -> tensor<?x16xf32, #node>
    mp.yield %r : tensor<?x16xf32, #node>
  }
  return %h : tensor<?x16xf32, #node>
}

// -----

// A sum by number is added up in a run of as many rows as it has numbers, and
// runs are added to its table.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         %[[STEP:.*]] = arith.constant 128 : i64
// CHECK:         scf.for %{{.*}} = %arg1 to %arg2 step %[[STEP]]
// CHECK:           scf.for
// CHECK:             scf.for
// CHECK:               llvm.load {{.*}} -> i64
// CHECK:               %[[SUM:.*]] = arith.addf {{.*}} : vector<16xf32>
// CHECK:               llvm.store %[[SUM]]
// CHECK:           arith.addf {{.*}} : vector<16xf32>
// CHECK-COUNT-2:   llvm.store {{.*}} : vector<16xf32>
func.func @sum_by_number(%t: tensor<?xi64, #edge>, %x: tensor<?x16xf32, #edge>) -> tensor<100x16xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %x) : (tensor<?xi64, #edge>, tensor<?x16xf32, #edge>) -> tensor<100x16xf32> {
    %s = mp.sum_by %a at %i : tensor<?x16xf32, #edge>, tensor<?xi64, #edge> -> tensor<100x16xf32>
    mp.yield %s : tensor<100x16xf32>
  }
  return %h : tensor<100x16xf32>
}

// -----

// A sum that is larger than a run may be is added to where it is.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT:     llvm.store
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             llvm.store
// CHECK-NOT:     llvm.store
// CHECK:         return
func.func @large_sum(%t: tensor<?xi64, #edge>, %x: tensor<?x16xf32, #edge>) -> tensor<100000x16xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %x) : (tensor<?xi64, #edge>, tensor<?x16xf32, #edge>) -> tensor<100000x16xf32> {
    %s = mp.sum_by %a at %i : tensor<?x16xf32, #edge>, tensor<?xi64, #edge> -> tensor<100000x16xf32>
    mp.yield %s : tensor<100000x16xf32>
  }
  return %h : tensor<100000x16xf32>
}

// -----

// Outer products by number: the factors of an edge wait in the queue of its
// number, and what is in a full queue is multiplied into the matrix of the
// number. What waits in any queue at the end follows after the last row.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         scf.for %{{.*}} = %arg1 to %arg2
// CHECK:           scf.for
// CHECK:             %[[MOST:.*]] = arith.constant 7 : i64
// CHECK:             %[[NUMBER:.*]] = arith.minsi %{{.*}}, %[[MOST]]
// CHECK:             arith.constant 32 : i64
// CHECK:             arith.muli %[[NUMBER]]
// CHECK-COUNT-3:     llvm.store {{.*}} : vector<16xf32>
// CHECK-NOT:         llvm.store {{.*}} : vector<16xf32>
// CHECK:             %[[FULL:.*]] = arith.constant 32 : i64
// CHECK:             %[[IS_FULL:.*]] = arith.cmpi eq, %{{.*}}, %[[FULL]]
// CHECK:             scf.if %[[IS_FULL]]
// CHECK:               scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK:               %[[MATRIX:.*]] = arith.constant 512 : i64
// CHECK:               arith.muli %[[NUMBER]], %[[MATRIX]]
// CHECK:         arith.constant 8 : i64
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK:             scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK:         return
func.func @outer_by_number(%t: tensor<?xi64, #edge>, %x: tensor<?x16xf32, #edge>, %y: tensor<?x32xf32, #edge>) -> tensor<8x16x32xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %x, %b = %y) : (tensor<?xi64, #edge>, tensor<?x16xf32, #edge>, tensor<?x32xf32, #edge>) -> tensor<8x16x32xf32> {
    %l = mp.reshape %a : tensor<?x16xf32, #edge> -> tensor<?x16x1xf32, #edge>
    %p = mp.broadcast %l : tensor<?x16x1xf32, #edge> -> tensor<?x16x32xf32, #edge>
    %r = mp.reshape %b : tensor<?x32xf32, #edge> -> tensor<?x1x32xf32, #edge>
    %q = mp.broadcast %r : tensor<?x1x32xf32, #edge> -> tensor<?x16x32xf32, #edge>
    %m = arith.mulf %q, %p : tensor<?x16x32xf32, #edge>
    %s = mp.sum_by %m at %i : tensor<?x16x32xf32, #edge>, tensor<?xi64, #edge> -> tensor<8x16x32xf32>
    mp.yield %s : tensor<8x16x32xf32>
  }
  return %h : tensor<8x16x32xf32>
}

// -----

// So many numbers that hardly two edges would meet in a queue, and rows that
// are no outer products, are added as they are.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT:     scf.if
// CHECK:         return
func.func @outer_by_many_numbers(%t: tensor<?xi64, #edge>, %x: tensor<?x16xf32, #edge>, %y: tensor<?x32xf32, #edge>) -> tensor<100000x16x32xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %x, %b = %y) : (tensor<?xi64, #edge>, tensor<?x16xf32, #edge>, tensor<?x32xf32, #edge>) -> tensor<100000x16x32xf32> {
    %l = mp.reshape %a : tensor<?x16xf32, #edge> -> tensor<?x16x1xf32, #edge>
    %p = mp.broadcast %l : tensor<?x16x1xf32, #edge> -> tensor<?x16x32xf32, #edge>
    %r = mp.reshape %b : tensor<?x32xf32, #edge> -> tensor<?x1x32xf32, #edge>
    %q = mp.broadcast %r : tensor<?x1x32xf32, #edge> -> tensor<?x16x32xf32, #edge>
    %m = arith.mulf %q, %p : tensor<?x16x32xf32, #edge>
    %s = mp.sum_by %m at %i : tensor<?x16x32xf32, #edge>, tensor<?xi64, #edge> -> tensor<100000x16x32xf32>
    mp.yield %s : tensor<100000x16x32xf32>
  }
  return %h : tensor<100000x16x32xf32>
}

// -----

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK-NOT:     scf.if
// CHECK:         return
func.func @no_outer(%t: tensor<?xi64, #edge>, %x: tensor<?x16xf32, #edge>, %y: tensor<?x16x32xf32, #edge>) -> tensor<8x16x32xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %x, %b = %y) : (tensor<?xi64, #edge>, tensor<?x16xf32, #edge>, tensor<?x16x32xf32, #edge>) -> tensor<8x16x32xf32> {
    %l = mp.reshape %a : tensor<?x16xf32, #edge> -> tensor<?x16x1xf32, #edge>
    %p = mp.broadcast %l : tensor<?x16x1xf32, #edge> -> tensor<?x16x32xf32, #edge>
    %m = arith.mulf %b, %p : tensor<?x16x32xf32, #edge>
    %s = mp.sum_by %m at %i : tensor<?x16x32xf32, #edge>, tensor<?xi64, #edge> -> tensor<8x16x32xf32>
    mp.yield %s : tensor<8x16x32xf32>
  }
  return %h : tensor<8x16x32xf32>
}

// -----

// A row times the transpose of a matrix: the neighbours in the matrix are along
// what is summed, so vectors run there, those of 16 results at a time, and
// their lanes are added up together.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK-NOT:         vector.insert
// CHECK:             %[[SUMS:.*]]:16 = scf.for
// CHECK-COUNT-16:      arith.addf {{.*}} : vector<16xf32>
// CHECK:             vector.shuffle %[[SUMS]]#0, %[[SUMS]]#1 [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
// CHECK:             vector.shuffle %[[SUMS]]#0, %[[SUMS]]#1 [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31]
// CHECK-COUNT-15:    arith.addf {{.*}} : vector<16xf32>
// CHECK-NOT:         arith.addf
// CHECK:             llvm.store {{.*}} : vector<16xf32>
func.func @times_transpose(%t: tensor<?xi64, #edge>, %w: tensor<8x64x48xf32>, %x: tensor<?x48xf32, #edge>) -> tensor<?x64xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%i = %t, %a = %w, %b = %x) : (tensor<?xi64, #edge>, tensor<8x64x48xf32>, tensor<?x48xf32, #edge>) -> tensor<?x64xf32, #node> {
    %m = mp.lookup %a at %i : tensor<8x64x48xf32>, tensor<?xi64, #edge> -> tensor<?x64x48xf32, #edge>
    %n = mp.transpose %m [0, 2, 1] : tensor<?x64x48xf32, #edge> -> tensor<?x48x64xf32, #edge>
    %l = mp.reshape %b : tensor<?x48xf32, #edge> -> tensor<?x48x1xf32, #edge>
    %p = mp.broadcast %l : tensor<?x48x1xf32, #edge> -> tensor<?x48x64xf32, #edge>
    %q = arith.mulf %p, %n : tensor<?x48x64xf32, #edge>
    %r = mp.reduce_axis sum %q axis 1 : tensor<?x48x64xf32, #edge> -> tensor<?x64xf32, #edge>
    %s = mp.reduce sum dst %r : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
    mp.yield %s : tensor<?x64xf32, #node>
  }
  return %h : tensor<?x64xf32, #node>
}
