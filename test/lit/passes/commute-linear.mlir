// RUN: gossamer-opt %s --mp-commute-linear --split-input-file | FileCheck %s

// The second layer of an MLP on edges: after the sum it runs once per node.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @product_of_a_sum
// CHECK-SAME: (%[[M:[a-z0-9]+]]: tensor<?x8xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor
func.func @product_of_a_sum(%m: tensor<?x8xf32, #edge>, %w: tensor<8x4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: %[[S:.*]] = mp.reduce sum dst %[[M]] : {{.*}} -> tensor<?x8xf32, #mp.rows<0, node>>
  // CHECK-NEXT: %[[Y:.*]] = mp.linear %[[S]], %[[W]]
  // CHECK-NEXT: return %[[Y]]
  %l = mp.linear %m, %w : tensor<?x8xf32, #edge>, tensor<8x4xf32> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %l : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// With a bias and a factor per edge: the factor goes to the input of the
// product, the bias is reduced on its own.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @bias_and_factor
// CHECK-SAME: (%[[M:[a-z0-9]+]]: tensor<?x8xf32{{.*}}, %[[F:[a-z0-9]+]]: tensor<?x1xf32
func.func @bias_and_factor(%m: tensor<?x8xf32, #edge>, %f: tensor<?x1xf32, #edge>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK: %[[BB:.*]] = mp.broadcast %{{.*}} : tensor<4xf32>
  // CHECK: %[[FB:.*]] = mp.broadcast %[[F]] : {{.*}} -> tensor<?x8xf32
  // CHECK: %[[P:.*]] = arith.mulf %[[M]], %[[FB]]
  // CHECK: %[[S:.*]] = mp.reduce mean dst %[[P]]
  // CHECK: %[[L:.*]] = mp.linear %[[S]]
  // CHECK: %[[SB:.*]] = mp.reduce mean dst %[[BB]]
  // CHECK: arith.addf %[[L]], %[[SB]] : tensor<?x4xf32, #mp.rows<0, node>>
  %l = mp.linear %m, %w : tensor<?x8xf32, #edge>, tensor<8x4xf32> -> tensor<?x4xf32, #edge>
  %fb = mp.broadcast %f : tensor<?x1xf32, #edge> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %l, %fb : tensor<?x4xf32, #edge>
  %bb = mp.broadcast %b : tensor<4xf32> -> tensor<?x4xf32, #edge>
  %t = arith.addf %p, %bb : tensor<?x4xf32, #edge>
  %s = mp.reduce mean dst %t : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// 4 to 16 features: gathered before the product, rows are a quarter as wide.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @widening_product
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @widening_product(%x: tensor<?x4xf32, #node>, %w: tensor<4x16xf32>) -> tensor<?x16xf32, #node> {
  // CHECK-NEXT: %[[M:.*]] = mp.gather src %[[X]]
  // CHECK-NEXT: %[[S:.*]] = mp.reduce sum dst %[[M]]
  // CHECK-NEXT: mp.linear %[[S]]
  %y = mp.linear %x, %w : tensor<?x4xf32, #node>, tensor<4x16xf32> -> tensor<?x16xf32, #node>
  %m = mp.gather src %y : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
  return %s : tensor<?x16xf32, #node>
}

// -----

// The other way round it is already where it should be.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @narrowing_product
func.func @narrowing_product(%x: tensor<?x16xf32, #node>, %w: tensor<16x4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: mp.linear
  // CHECK-NEXT: mp.gather
  // CHECK-NEXT: mp.reduce
  %y = mp.linear %x, %w : tensor<?x16xf32, #node>, tensor<16x4xf32> -> tensor<?x4xf32, #node>
  %m = mp.gather src %y : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// The maximum of products is not the product of a maximum.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @maximum
func.func @maximum(%m: tensor<?x8xf32, #edge>, %w: tensor<8x4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: mp.linear
  // CHECK-NEXT: mp.reduce max
  %l = mp.linear %m, %w : tensor<?x8xf32, #edge>, tensor<8x4xf32> -> tensor<?x4xf32, #edge>
  %s = mp.reduce max dst %l : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// Something else reads the product per edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @needed_per_edge
func.func @needed_per_edge(%m: tensor<?x8xf32, #edge>, %w: tensor<8x4xf32>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #edge>) {
  // CHECK-NEXT: mp.linear
  // CHECK-NEXT: mp.reduce sum
  %l = mp.linear %m, %w : tensor<?x8xf32, #edge>, tensor<8x4xf32> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %l : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s, %l : tensor<?x4xf32, #node>, tensor<?x4xf32, #edge>
}
