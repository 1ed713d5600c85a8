// RUN: gossamer-opt %s --mp-split-linear --split-input-file | FileCheck %s

// W [x_u, x_v, e]: two of the parts are rows of nodes.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @concat_of_ends
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[E:[a-z0-9]+]]: tensor<?x2xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<10x3xf32>)
func.func @concat_of_ends(%x: tensor<?x4xf32, #node>, %e: tensor<?x2xf32, #edge>, %w: tensor<10x3xf32>) -> tensor<?x3xf32, #edge> {
  // CHECK: %[[XU:.*]] = mp.gather src %[[X]]
  // CHECK: %[[XV:.*]] = mp.gather dst %[[X]]
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %c = mp.concat %xu, %xv, %e axis 1 : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge>, tensor<?x2xf32, #edge> -> tensor<?x10xf32, #edge>
  // CHECK: %[[W0:.*]] = mp.slice %[[W]] axis 0 from 0 by 1 : tensor<10x3xf32> -> tensor<4x3xf32>
  // CHECK: %[[L0:.*]] = mp.linear %[[XU]], %[[W0]]
  // CHECK: %[[W1:.*]] = mp.slice %[[W]] axis 0 from 4 by 1 : tensor<10x3xf32> -> tensor<4x3xf32>
  // CHECK: %[[L1:.*]] = mp.linear %[[XV]], %[[W1]]
  // CHECK: %[[L01:.*]] = arith.addf %[[L0]], %[[L1]]
  // CHECK: %[[W2:.*]] = mp.slice %[[W]] axis 0 from 8 by 1 : tensor<10x3xf32> -> tensor<2x3xf32>
  // CHECK: %[[L2:.*]] = mp.linear %[[E]], %[[W2]]
  // CHECK: %[[Y:.*]] = arith.addf %[[L01]], %[[L2]]
  // CHECK: return %[[Y]]
  %y = mp.linear %c, %w : tensor<?x10xf32, #edge>, tensor<10x3xf32> -> tensor<?x3xf32, #edge>
  return %y : tensor<?x3xf32, #edge>
}

// -----

// W [x_v, x_u - x_v]: parts of parts.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @difference_in_a_concat
func.func @difference_in_a_concat(%x: tensor<?x4xf32, #node>, %w: tensor<8x3xf32>) -> tensor<?x3xf32, #edge> {
  // CHECK: %[[XU:.*]] = mp.gather src
  // CHECK: %[[XV:.*]] = mp.gather dst
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %d = arith.subf %xu, %xv : tensor<?x4xf32, #edge>
  %c = mp.concat %xv, %d axis 1 : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<?x8xf32, #edge>
  // CHECK: %[[A:.*]] = mp.linear %[[XV]]
  // CHECK: %[[B:.*]] = mp.linear %[[XU]]
  // CHECK: %[[C:.*]] = mp.linear %[[XV]]
  // CHECK: %[[D:.*]] = arith.subf %[[B]], %[[C]] : tensor<?x3xf32
  // CHECK: arith.addf %[[A]], %[[D]]
  %y = mp.linear %c, %w : tensor<?x8xf32, #edge>, tensor<8x3xf32> -> tensor<?x3xf32, #edge>
  return %y : tensor<?x3xf32, #edge>
}

// -----

// W (w_e x_u) is w_e (W x_u), at the width of the result.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @factor_per_edge
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[F:[a-z0-9]+]]: tensor<?x1xf32
func.func @factor_per_edge(%x: tensor<?x4xf32, #node>, %f: tensor<?x1xf32, #edge>, %w: tensor<4x3xf32>) -> tensor<?x3xf32, #edge> {
  // CHECK: %[[XU:.*]] = mp.gather src %[[X]]
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %fb = mp.broadcast %f : tensor<?x1xf32, #edge> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %fb, %xu : tensor<?x4xf32, #edge>
  // CHECK: %[[L:.*]] = mp.linear %[[XU]]
  // CHECK: %[[FB:.*]] = mp.broadcast %[[F]] : {{.*}} -> tensor<?x3xf32
  // CHECK: arith.mulf %[[FB]], %[[L]]
  %y = mp.linear %p, %w : tensor<?x4xf32, #edge>, tensor<4x3xf32> -> tensor<?x3xf32, #edge>
  return %y : tensor<?x3xf32, #edge>
}

// -----

// A factor that differs along the features stays inside the product.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @factor_per_feature
func.func @factor_per_feature(%x: tensor<?x4xf32, #node>, %f: tensor<?x4xf32, #edge>, %w: tensor<4x3xf32>) -> tensor<?x3xf32, #edge> {
  // CHECK: %[[P:.*]] = arith.mulf
  // CHECK-NEXT: mp.linear %[[P]]
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %f, %xu : tensor<?x4xf32, #edge>
  %y = mp.linear %p, %w : tensor<?x4xf32, #edge>, tensor<4x3xf32> -> tensor<?x3xf32, #edge>
  return %y : tensor<?x3xf32, #edge>
}

// -----

// x_u + e: a product per edge would be left in any case.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @sum_with_edge_rows
func.func @sum_with_edge_rows(%x: tensor<?x4xf32, #node>, %e: tensor<?x4xf32, #edge>, %w: tensor<4x3xf32>) -> tensor<?x3xf32, #edge> {
  // CHECK: %[[S:.*]] = arith.addf
  // CHECK-NEXT: mp.linear %[[S]]
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = arith.addf %xu, %e : tensor<?x4xf32, #edge>
  %y = mp.linear %s, %w : tensor<?x4xf32, #edge>, tensor<4x3xf32> -> tensor<?x3xf32, #edge>
  return %y : tensor<?x3xf32, #edge>
}

// -----

// Not linear: relu of a difference.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @not_linear
func.func @not_linear(%x: tensor<?x4xf32, #node>, %w: tensor<4x3xf32>) -> tensor<?x3xf32, #edge> {
  // CHECK: %[[R:.*]] = math.absf
  // CHECK-NEXT: mp.linear %[[R]]
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %d = arith.subf %xu, %xv : tensor<?x4xf32, #edge>
  %r = math.absf %d : tensor<?x4xf32, #edge>
  %y = mp.linear %r, %w : tensor<?x4xf32, #edge>, tensor<4x3xf32> -> tensor<?x3xf32, #edge>
  return %y : tensor<?x3xf32, #edge>
}

// -----

// On nodes there is nothing to hoist: one product reads a concat as well as two.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @on_nodes
func.func @on_nodes(%x: tensor<?x4xf32, #node>, %y: tensor<?x4xf32, #node>, %w: tensor<8x3xf32>) -> tensor<?x3xf32, #node> {
  // CHECK: %[[C:.*]] = mp.concat
  // CHECK-NEXT: mp.linear %[[C]]
  %c = mp.concat %x, %y axis 1 : tensor<?x4xf32, #node>, tensor<?x4xf32, #node> -> tensor<?x8xf32, #node>
  %r = mp.linear %c, %w : tensor<?x8xf32, #node>, tensor<8x3xf32> -> tensor<?x3xf32, #node>
  return %r : tensor<?x3xf32, #node>
}
