// RUN: gossamer-opt %s --mp-factor-from-sum --split-input-file | FileCheck %s

// Weights of a softmax are divided by their sum once per node.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @normalised_weights
// CHECK-SAME: (%[[P:[a-z0-9]+]]: tensor<?x2x1xf32{{.*}}, %[[Y:[a-z0-9]+]]: tensor
func.func @normalised_weights(%p: tensor<?x2x1xf32, #edge>, %y: tensor<?x2x4xf32, #edge>) -> tensor<?x2x4xf32, #node> {
  // CHECK: %[[Z:.*]] = mp.reduce sum dst %[[P]]
  %z = mp.reduce sum dst %p : tensor<?x2x1xf32, #edge> -> tensor<?x2x1xf32, #node>
  %ze = mp.gather dst %z : tensor<?x2x1xf32, #node> -> tensor<?x2x1xf32, #edge>
  %a = arith.divf %p, %ze : tensor<?x2x1xf32, #edge>
  // CHECK: %[[PB:.*]] = mp.broadcast %[[P]] : {{.*}} -> tensor<?x2x4xf32, #mp.rows<0, edge>>
  %ab = mp.broadcast %a : tensor<?x2x1xf32, #edge> -> tensor<?x2x4xf32, #edge>
  // CHECK: %[[ZB:.*]] = mp.broadcast %[[Z]] : {{.*}} -> tensor<?x2x4xf32, #mp.rows<0, node>>
  // CHECK: %[[T:.*]] = arith.mulf %[[PB]], %[[Y]]
  %t = arith.mulf %ab, %y : tensor<?x2x4xf32, #edge>
  // CHECK: %[[S:.*]] = mp.reduce sum dst %[[T]]
  // CHECK: %[[D:.*]] = arith.divf %[[S]], %[[ZB]]
  // A node without edges has sum 0 and z 0.
  // CHECK: %[[F:.*]] = mp.fill_isolated dst %[[D]], 0.000000e+00
  // CHECK: return %[[F]]
  %s = mp.reduce sum dst %t : tensor<?x2x4xf32, #edge> -> tensor<?x2x4xf32, #node>
  return %s : tensor<?x2x4xf32, #node>
}

// -----

// Several factors leave one after the other; those of the edge stay.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @several_factors
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[M:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<?x4xf32
func.func @several_factors(%x: tensor<?x4xf32, #node>, %m: tensor<?x4xf32, #edge>, %w: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  // CHECK-DAG: %[[HALF:.*]] = mp.fill 5.000000e-01 : f32 : tensor<?x4xf32, #mp.rows<0, node>>
  %half = mp.fill 0.5 : f32 : tensor<?x4xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  // CHECK-DAG: %[[P:.*]] = arith.mulf %[[M]], %[[W]]
  %a = arith.mulf %half, %m : tensor<?x4xf32, #edge>
  %b = arith.mulf %a, %w : tensor<?x4xf32, #edge>
  %c = arith.mulf %xv, %b : tensor<?x4xf32, #edge>
  // CHECK: %[[S:.*]] = mp.reduce mean dst %[[P]]
  // CHECK: arith.mulf %{{.*}}, %[[HALF]]
  // CHECK: arith.mulf %{{.*}}, %[[X]]
  %s = mp.reduce mean dst %c : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// Terms that are all the same: a sum is a multiple, a mean is the term.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @equal_terms
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[B:[a-z0-9]+]]: tensor<4xf32>)
func.func @equal_terms(%x: tensor<?x4xf32, #node>, %b: tensor<4xf32>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK: %[[D:.*]] = mp.degree dst : tensor<?xi64, #mp.rows<0, node>>
  // CHECK: %[[DF:.*]] = arith.sitofp %[[D]]
  // CHECK: %[[D1:.*]] = mp.reshape %[[DF]]
  // CHECK: %[[DB:.*]] = mp.broadcast %[[D1]]
  // CHECK: %[[P:.*]] = arith.mulf %[[X]], %[[DB]]
  // CHECK: %[[S:.*]] = mp.fill_isolated dst %[[P]], 0.000000e+00
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %xv : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  // CHECK: %[[BB:.*]] = mp.broadcast %[[B]] : tensor<4xf32> -> tensor<?x4xf32, #mp.rows<0, node>>
  // CHECK: %[[M:.*]] = mp.fill_isolated dst %[[BB]], 0.000000e+00
  %bb = mp.broadcast %b : tensor<4xf32> -> tensor<?x4xf32, #edge>
  %m = mp.reduce mean dst %bb : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  // CHECK: return %[[S]], %[[M]]
  return %s, %m : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// A maximum has no factors to give: they may be negative.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @maximum
func.func @maximum(%x: tensor<?x4xf32, #node>, %m: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  // CHECK: %[[P:.*]] = arith.mulf
  // CHECK-NEXT: mp.reduce max dst %[[P]]
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %xv, %m : tensor<?x4xf32, #edge>
  %s = mp.reduce max dst %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// The product is returned, so it is needed per edge; and a factor at the other
// end differs from edge to edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @needed_per_edge
func.func @needed_per_edge(%x: tensor<?x4xf32, #node>, %m: tensor<?x4xf32, #edge>)
    -> (tensor<?x4xf32, #edge>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK: %[[XV:.*]] = mp.gather dst
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %[[XV]]
  // CHECK-NEXT: %[[XU:.*]] = mp.gather src
  // CHECK-NEXT: %[[Q:.*]] = arith.mulf %[[XU]]
  // CHECK-NEXT: mp.reduce sum dst %[[P]]
  // CHECK-NEXT: mp.reduce sum dst %[[Q]]
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %xv, %m : tensor<?x4xf32, #edge>
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %q = arith.mulf %xu, %m : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.reduce sum dst %q : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %p, %s, %t : tensor<?x4xf32, #edge>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// A sign leaves the sum.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @negative
// CHECK-SAME: (%[[M:[a-z0-9]+]]: tensor
func.func @negative(%m: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: %[[S:.*]] = mp.reduce sum dst %[[M]]
  // CHECK-NEXT: arith.negf %[[S]]
  %n = arith.negf %m : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %n : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// Torch has the sum in f16, and so may what replaces it be in memory. Before it
// is divided the sum may be too large for f16.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @stored_as
func.func @stored_as(%y: tensor<?x4xf32, #edge>, %z: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // CHECK: %[[S:.*]] = mp.reduce sum dst %{{[^ ]*}} : tensor
  // CHECK: arith.divf %[[S]], %{{[^ ]*}} : tensor
  // CHECK: mp.fill_isolated {{.*}} {mp.stored_as = f16}
  %ze = mp.gather dst %z : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %a = arith.divf %y, %ze {mp.stored_as = f16} : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %a {mp.stored_as = f16} : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}
