// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s

// An edge reads a row of 32 floats at its other end and one float at its id.
// The sum is all that pieces of a row leave behind: 128 bytes and padding. It
// goes past the caches when the call wants it, to the row or, in a call for a
// piece, to the place of the piece; pieces are combined from the second on.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @weighted
// CHECK:         mp.gathered_bytes = 132 : i64, mp.partial_bytes = 256 : i64, mp.phases = 1 : i64
// CHECK-LABEL: func.func @kernel_0
// CHECK-SAME:    (%[[CALL:.*]]: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr {llvm.noalias})
// CHECK:         %[[STREAM:.*]] = llvm.getelementptr %[[CALL]][48]
// CHECK:         %[[STREAMS:.*]] = llvm.load %[[STREAM]]
// CHECK:         %[[PAST:.*]] = arith.cmpi ne, %[[STREAMS]]
// CHECK:         scf.if
// CHECK-COUNT-3:   llvm.intr.prefetch
// CHECK:           %[[ROW:.*]] = llvm.select %{{.*}}, %{{.*}}, %{{.*}} : i1, !llvm.ptr
// CHECK:           scf.if %[[PAST]] {
// CHECK-NEXT:        llvm.store %{{.*}} {alignment = 64 : i64, nontemporal} : vector<16xf32>
// CHECK-NEXT:      } else {
// CHECK-NEXT:        llvm.store %{{.*}} {alignment = 4 : i64} : vector<16xf32>
// CHECK:         scf.if
// CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>)
// CHECK-NOT:       nontemporal
// CHECK:         return
func.func @weighted(%x: tensor<?x32xf32, #node>, %w: tensor<?x1xf32, #edge>) -> tensor<?x32xf32, #node> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %x, %by = %w) : (tensor<?x32xf32, #node>, tensor<?x1xf32, #edge>) -> tensor<?x32xf32, #node> {
    %m = mp.gather src %in : tensor<?x32xf32, #node> -> tensor<?x32xf32, #edge>
    %b = mp.broadcast %by : tensor<?x1xf32, #edge> -> tensor<?x32xf32, #edge>
    %p = arith.mulf %m, %b : tensor<?x32xf32, #edge>
    %s = mp.reduce sum dst %p : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
    mp.yield %s : tensor<?x32xf32, #node>
  }
  return %h : tensor<?x32xf32, #node>
}

// -----

// Rows that are no whole cache lines, and a result that the kernel reads again,
// are never streamed.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @not_streamed
// CHECK-NOT: nontemporal
func.func @not_streamed(%x: tensor<?x20xf32, #node>, %y: tensor<?x16xf32, #node>) -> (tensor<?x20xf32, #node>, tensor<?x16xf32, #node>, tensor<?xf32, #node>) attributes {mp.graphs = 1 : i64} {
  %h:3 = mp.kernel over #node by dst (%in = %x, %other = %y) : (tensor<?x20xf32, #node>, tensor<?x16xf32, #node>) -> (tensor<?x20xf32, #node>, tensor<?x16xf32, #node>, tensor<?xf32, #node>) {
    %m = mp.gather src %in : tensor<?x20xf32, #node> -> tensor<?x20xf32, #edge>
    %s = mp.reduce sum dst %m : tensor<?x20xf32, #edge> -> tensor<?x20xf32, #node>
    %n = mp.gather src %other : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
    %t = mp.reduce sum dst %n : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
    %u = mp.reduce_axis sum %t axis 1 : tensor<?x16xf32, #node> -> tensor<?xf32, #node>
    mp.yield %s, %t, %u : tensor<?x20xf32, #node>, tensor<?x16xf32, #node>, tensor<?xf32, #node>
  }
  return %h#0, %h#1, %h#2 : tensor<?x20xf32, #node>, tensor<?x16xf32, #node>, tensor<?xf32, #node>
}

// -----

// Edges add to a total in their order: rows stay whole.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @total
// CHECK: mp.phases = 0 : i64
func.func @total(%x: tensor<?x4xf32, #node>) -> (tensor<?x4xf32, #node>, tensor<4xf32>) attributes {mp.graphs = 1 : i64} {
  %h:2 = mp.kernel over #node by dst (%in = %x) : (tensor<?x4xf32, #node>) -> (tensor<?x4xf32, #node>, tensor<4xf32>) {
    %m = mp.gather src %in : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
    %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    %t = mp.sum_rows %s : tensor<?x4xf32, #node> -> tensor<4xf32>
    mp.yield %s, %t : tensor<?x4xf32, #node>, tensor<4xf32>
  }
  return %h#0, %h#1 : tensor<?x4xf32, #node>, tensor<4xf32>
}
