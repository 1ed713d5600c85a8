// RUN: gossamer-opt %s --mp-pipeline="differentiate=backward wrt=0" --split-input-file | FileCheck %s

// Gradients of what multiplies rows that exist on edges only: the kernel that
// computes the rows adds them up, and no row of edges is stored.

// The narrower factor is the left one, and the result is turned back.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @second_layer
// CHECK: %[[K:.*]] = mp.kernel over #mp.rows<0, node> by dst {{.*}} -> tensor<2x4xf32> {
// CHECK: %[[T:.*]] = math.tanh
// CHECK: %[[W:.*]] = mp.contract_rows %{{.*}}, %[[T]] {{.*}} -> tensor<2x4xf32>
// CHECK: mp.yield %[[W]]
// CHECK-NOT: mp.contract_rows
// CHECK: mp.transpose %[[K]] [1, 0]
func.func @second_layer(%w: tensor<4x2xf32>, %e: tensor<?x4xf32, #edge>) -> tensor<?x2xf32, #node> {
  %t = math.tanh %e : tensor<?x4xf32, #edge>
  %y = mp.linear %t, %w : tensor<?x4xf32, #edge>, tensor<4x2xf32> -> tensor<?x2xf32, #edge>
  %h = mp.reduce max dst %y : tensor<?x2xf32, #edge> -> tensor<?x2xf32, #node>
  return %h : tensor<?x2xf32, #node>
}

// -----

// A row that all edges share.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @bias
// CHECK: mp.kernel over #mp.rows<0, node> by dst {{.*}} -> tensor<2xf32> {
// CHECK: %[[S:.*]] = mp.reduce sum dst
// CHECK: %[[B:.*]] = mp.sum_rows %[[S]]
// CHECK: mp.yield %[[B]]
// CHECK-NOT: mp.sum_rows
func.func @bias(%b: tensor<2xf32>, %e: tensor<?x2xf32, #edge>) -> tensor<?x2xf32, #node> {
  %r = mp.broadcast %b : tensor<2xf32> -> tensor<?x2xf32, #edge>
  %y = arith.addf %e, %r : tensor<?x2xf32, #edge>
  %t = math.tanh %y : tensor<?x2xf32, #edge>
  %p = arith.mulf %t, %e : tensor<?x2xf32, #edge>
  %h = mp.reduce max dst %p : tensor<?x2xf32, #edge> -> tensor<?x2xf32, #node>
  return %h : tensor<?x2xf32, #node>
}
