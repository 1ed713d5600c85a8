// RUN: gossamer-opt %s --mp-form-kernels --mp-verify-kernels --split-input-file | FileCheck %s

// Ops on edges, their reduction and what follows on the nodes are one kernel. A
// table that is read at both ends is one input.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @one_kernel
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<?x4xf32, #mp.rows<0, edge>>)
func.func @one_kernel(%x: tensor<?x4xf32, #node>, %w: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: %[[K:.*]] = mp.kernel over #mp.rows<0, node> by dst (%[[A:.*]] = %[[X]], %[[B:.*]] = %[[W]]) :
  // CHECK-NEXT: %[[M:.*]] = mp.gather src %[[A]]
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %[[M]], %[[B]]
  // CHECK-NEXT: %[[S:.*]] = mp.reduce sum dst %[[P]]
  // CHECK-NEXT: %[[Y:.*]] = arith.addf %[[S]], %[[A]]
  // CHECK-NEXT: mp.yield %[[Y]]
  // CHECK: return %[[K]]
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %m, %w : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %y = arith.addf %s, %x : tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}

// -----

// What a reduction gives, read at the same end, is the row itself: one kernel.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @own_row
func.func @own_row(%e: tensor<?x1xf32, #edge>) -> tensor<?x1xf32, #edge> {
  // CHECK: mp.kernel over #mp.rows<0, node> by dst
  // CHECK-NOT: mp.kernel
  // CHECK: return
  %s = mp.reduce sum dst %e : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  %g = mp.gather dst %s : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %a = arith.divf %e, %g : tensor<?x1xf32, #edge>
  return %a : tensor<?x1xf32, #edge>
}

// -----

// Read at the other end, it is other rows, which must be complete: two kernels.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @other_row
func.func @other_row(%e: tensor<?x1xf32, #edge>) -> tensor<?x1xf32, #node> {
  // CHECK: %[[K:.*]] = mp.kernel
  // CHECK: mp.reduce sum dst
  // CHECK: mp.yield
  // CHECK: mp.kernel {{.*}} (%[[A:.*]] = %[[K]])
  // CHECK-NEXT: mp.gather src %[[A]]
  // CHECK: mp.reduce sum dst
  %s = mp.reduce sum dst %e : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  %g = mp.gather src %s : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %t = mp.reduce sum dst %g : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  return %t : tensor<?x1xf32, #node>
}

// -----

// Reductions over one graph by one end share a kernel, and what they both read.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @siblings
func.func @siblings(%x: tensor<?x4xf32, #node>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?xi64, #node>) {
  // CHECK: %[[K:.*]]:3 = mp.kernel
  // CHECK-COUNT-1: mp.gather
  // CHECK-NOT: mp.gather
  // CHECK-DAG: mp.reduce sum
  // CHECK-DAG: mp.reduce max
  // CHECK-DAG: mp.degree
  // CHECK: return %[[K]]#0, %[[K]]#1, %[[K]]#2
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.reduce max dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %d = mp.degree dst : tensor<?xi64, #node>
  return %s, %t, %d : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?xi64, #node>
}

// -----

// By the two ends, rows are visited in two ways. The product per edge is
// computed in both kernels and stored by none.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @both_ends
func.func @both_ends(%x: tensor<?x4xf32, #node>, %w: tensor<?x4xf32, #edge>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK: %[[K:.*]] = mp.kernel over #mp.rows<0, node> by dst
  // CHECK: arith.mulf
  // CHECK: mp.reduce sum dst
  // CHECK: %[[L:.*]] = mp.kernel over #mp.rows<0, node> by src
  // CHECK: arith.mulf
  // CHECK: mp.reduce sum src
  // CHECK: return %[[K]], %[[L]]
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %m, %w : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.reduce sum src %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s, %t : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// Edge weights normalised by destination, summed by source: the sums by
// destination become a table, the weights do not.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @normalised_by_one_end_summed_by_the_other
func.func @normalised_by_one_end_summed_by_the_other(%e: tensor<?x1xf32, #edge>, %like: tensor<?x1xf32, #src>) -> tensor<?x1xf32, #src> {
  // CHECK: %[[Z:.*]] = mp.kernel over #mp.rows<0, dst> by dst (%{{.*}} = %[[E:.*]]) : {{.*}} -> tensor<?x1xf32, #mp.rows<0, dst>>
  // CHECK: mp.kernel over #mp.rows<0, src> by src
  // CHECK: mp.gather dst
  // CHECK: arith.divf
  // CHECK: mp.reduce sum src
  %z = mp.reduce sum dst %e : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #dst>
  %g = mp.gather dst %z : tensor<?x1xf32, #dst> -> tensor<?x1xf32, #edge>
  %a = arith.divf %e, %g : tensor<?x1xf32, #edge>
  %s = mp.reduce sum src %a : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #src>
  return %s : tensor<?x1xf32, #src>
}

// -----

// A reduction that two kernels need is computed in the first.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @needed_twice
func.func @needed_twice(%e: tensor<?x1xf32, #edge>) -> tensor<?x1xf32, #node> {
  // CHECK: %[[K:.*]]:2 = mp.kernel
  // CHECK: %[[S:.*]] = mp.reduce sum dst
  // CHECK: %[[R:.*]] = math.exp %[[S]]
  // CHECK: mp.yield {{.*}} : tensor<?x1xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>
  // CHECK: mp.kernel
  // CHECK: mp.reduce sum dst
  // CHECK-NOT: mp.reduce
  // CHECK: return
  %s = mp.reduce sum dst %e : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  %r = math.exp %s : tensor<?x1xf32, #node>
  %g = mp.gather src %r : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %t = mp.reduce sum dst %g : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  %y = arith.addf %s, %t : tensor<?x1xf32, #node>
  return %y : tensor<?x1xf32, #node>
}

// -----

// Rows alone need no edges; they join a kernel over the same rows.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @rows_alone
func.func @rows_alone(%x: tensor<?x4xf32, #node>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK: mp.kernel over #mp.rows<0, node> by src
  // CHECK-NOT: mp.kernel
  // CHECK: return
  %y = math.exp %x : tensor<?x4xf32, #node>
  %m = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum src %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %y, %s : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// What nobody needs early is computed in a later kernel over the same rows.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @later_kernel
func.func @later_kernel(%x: tensor<?x4xf32, #node>, %e: tensor<?x4xf32, #edge>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK: mp.kernel over #mp.rows<0, node> by src
  // CHECK: mp.kernel over #mp.rows<0, node> by dst
  // CHECK-DAG: mp.reduce max dst
  // CHECK-DAG: mp.reduce sum dst
  // CHECK-NOT: mp.kernel
  // CHECK: return
  %early = mp.reduce max dst %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %a = mp.reduce sum src %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %m = mp.gather src %a : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %early, %s : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// Products on nodes stand between kernels; so do views.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @products_between_kernels
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<8x4xf32>)
func.func @products_between_kernels(%x: tensor<?x4xf32, #node>, %w: tensor<8x4xf32>) -> tensor<?x2x4xf32, #node> {
  // CHECK-DAG: %[[T:.*]] = mp.transpose %[[W]] [1, 0]
  // CHECK-DAG: %[[K:.*]] = mp.kernel
  // CHECK: %[[L:.*]] = mp.linear %[[K]], %[[T]]
  // CHECK: %[[R:.*]] = mp.reshape %[[L]]
  // CHECK: mp.kernel {{.*}} = %[[R]])
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.transpose %w [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %l = mp.linear %s, %t : tensor<?x4xf32, #node>, tensor<4x8xf32> -> tensor<?x8xf32, #node>
  %r = mp.reshape %l : tensor<?x8xf32, #node> -> tensor<?x2x4xf32, #node>
  %y = math.tanh %r : tensor<?x2x4xf32, #node>
  return %y : tensor<?x2x4xf32, #node>
}

// -----

// A product per edge is part of its kernel; its weight is a table.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @product_per_edge
// CHECK-SAME: (%[[E:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<4x8xf32>)
func.func @product_per_edge(%e: tensor<?x4xf32, #edge>, %w: tensor<4x8xf32>) -> tensor<?x8xf32, #node> {
  // CHECK: %[[V:.*]] = mp.kernel over params (%{{.*}} = %[[W]]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: arith.addf
  // CHECK: mp.kernel over #mp.rows<0, node> by dst (%[[A:.*]] = %[[E]], %[[B:.*]] = %[[V]])
  // CHECK: mp.linear %[[A]], %[[B]]
  %v = arith.addf %w, %w : tensor<4x8xf32>
  %l = mp.linear %e, %v : tensor<?x4xf32, #edge>, tensor<4x8xf32> -> tensor<?x8xf32, #edge>
  %s = mp.reduce max dst %l : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %s : tensor<?x8xf32, #node>
}

// -----

// Other arithmetic on parameters is part of the kernel that needs it.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @parameters_inside
func.func @parameters_inside(%x: tensor<?x4xf32, #node>, %b: tensor<4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: mp.kernel over #mp.rows<0, node>
  // CHECK-NEXT: math.exp %{{.*}} : tensor<4xf32>
  // CHECK-NEXT: mp.broadcast
  // CHECK-NEXT: arith.addf
  %e = math.exp %b : tensor<4xf32>
  %bb = mp.broadcast %e : tensor<4xf32> -> tensor<?x4xf32, #node>
  %y = arith.addf %x, %bb : tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}

// -----

// Two graphs, two kernels; rows of one seen as rows of the other lie between.
#dst0 = #mp.rows<0, dst>
#src1 = #mp.rows<1, src>
#edge0 = #mp.rows<0, edge>
#edge1 = #mp.rows<1, edge>
#dst1 = #mp.rows<1, dst>
// CHECK-LABEL: func @two_graphs
func.func @two_graphs(%x: tensor<?x4xf32, #mp.rows<0, src>>) -> tensor<?x4xf32, #dst1> {
  // CHECK: %[[K:.*]] = mp.kernel over #mp.rows<0, dst> by dst
  // CHECK: %[[P:.*]] = mp.prefix %[[K]]
  // CHECK: mp.kernel over #mp.rows<1, dst> by dst (%{{.*}} = %[[P]])
  %m = mp.gather src %x : tensor<?x4xf32, #mp.rows<0, src>> -> tensor<?x4xf32, #edge0>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge0> -> tensor<?x4xf32, #dst0>
  %p = mp.prefix %s : tensor<?x4xf32, #dst0> -> tensor<?x4xf32, #src1>
  %n = mp.gather src %p : tensor<?x4xf32, #src1> -> tensor<?x4xf32, #edge1>
  %t = mp.reduce sum dst %n : tensor<?x4xf32, #edge1> -> tensor<?x4xf32, #dst1>
  return %t : tensor<?x4xf32, #dst1>
}

// -----

// Nothing to compute: no kernel. What is dead goes away.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @no_kernel
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @no_kernel(%x: tensor<?x4xf32, #node>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK-NEXT: return %[[X]], %[[X]]
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  return %x, %x : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// A kernel waits for a later one of the same rows when all who read it run
// later still, a product outside of kernels included.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @waits
// CHECK: mp.kernel over {{.*}} by dst
// CHECK: %[[K:.*]]:2 = mp.kernel over {{.*}} by src
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @waits(%x: tensor<?x4xf32, #node>, %w: tensor<4x4xf32>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  %xd = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %a = mp.reduce sum src %xd : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %xs = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %b = mp.reduce sum dst %xs : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %bd = mp.gather dst %b : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %c = mp.reduce sum src %bd : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %h = mp.linear %a, %w : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
  return %h, %c : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// It cannot wait for a kernel that reads what the product makes of it.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @cannot_wait
// CHECK: %[[A:.*]] = mp.kernel over {{.*}} by src
// CHECK: %[[H:.*]] = mp.linear %[[A]]
// CHECK: mp.kernel over {{.*}} by src ({{.*}} = %[[H]]
func.func @cannot_wait(%x: tensor<?x4xf32, #node>, %w: tensor<4x4xf32>) -> tensor<?x4xf32, #node> {
  %xd = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %a = mp.reduce sum src %xd : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %h = mp.linear %a, %w : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
  %hs = mp.gather src %h : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = arith.mulf %hs, %xd : tensor<?x4xf32, #edge>
  %c = mp.reduce max src %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %c : tensor<?x4xf32, #node>
}
