// RUN: gossamer-opt %s --mp-hoist-before-gather --split-input-file | FileCheck %s

// exp of a gathered row is one exp per edge; per node is enough.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @exp_of_gathered_rows
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @exp_of_gathered_rows(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #edge> {
  // CHECK-NEXT: %[[EXP:.*]] = math.exp %[[X]] {mp.was_on_edges} : tensor<?x4xf32, #mp.rows<0, node>>
  // CHECK-NEXT: %[[ROWS:.*]] = mp.gather src %[[EXP]]
  // CHECK-NEXT: return %[[ROWS]]
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %e = math.exp %m : tensor<?x4xf32, #edge>
  return %e : tensor<?x4xf32, #edge>
}

// -----

// A whole expression moves with all that only copies: one gather is left.
#src = #mp.rows<0, src>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @expression
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x8xf32{{.*}}, %[[C:[a-z0-9]+]]: tensor<?x1xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<8x8xf32>, %[[B:[a-z0-9]+]]: tensor<8xf32>)
func.func @expression(%x: tensor<?x8xf32, #src>, %c: tensor<?x1xf32, #src>, %w: tensor<8x8xf32>, %b: tensor<8xf32>)
    -> tensor<?x2xf32, #edge> {
  %xu = mp.gather src %x : tensor<?x8xf32, #src> -> tensor<?x8xf32, #edge>
  %cu = mp.gather src %c : tensor<?x1xf32, #src> -> tensor<?x1xf32, #edge>
  // CHECK: %[[L:.*]] = mp.linear %[[X]], %[[W]]
  %l = mp.linear %xu, %w : tensor<?x8xf32, #edge>, tensor<8x8xf32> -> tensor<?x8xf32, #edge>
  // CHECK: %[[BB:.*]] = mp.broadcast %[[B]] : tensor<8xf32> -> tensor<?x8xf32, #mp.rows<0, src>>
  %bb = mp.broadcast %b : tensor<8xf32> -> tensor<?x8xf32, #edge>
  // CHECK: %[[Y:.*]] = arith.addf %[[L]], %[[BB]]
  %y = arith.addf %l, %bb : tensor<?x8xf32, #edge>
  // CHECK: %[[CB:.*]] = mp.broadcast %[[C]]
  %cb = mp.broadcast %cu : tensor<?x1xf32, #edge> -> tensor<?x8xf32, #edge>
  // CHECK: %[[P:.*]] = arith.mulf %[[Y]], %[[CB]]
  %p = arith.mulf %y, %cb : tensor<?x8xf32, #edge>
  // CHECK: %[[R:.*]] = mp.reshape %[[P]]
  %r = mp.reshape %p : tensor<?x8xf32, #edge> -> tensor<?x2x4xf32, #edge>
  // CHECK: %[[S:.*]] = mp.reduce_axis sum %[[R]] axis 2
  %s = mp.reduce_axis sum %r axis 2 : tensor<?x2x4xf32, #edge> -> tensor<?x2xf32, #edge>
  // CHECK: %[[ROWS:.*]] = mp.gather src %[[S]] : tensor<?x2xf32, #mp.rows<0, src>> -> tensor<?x2xf32, #mp.rows<0, edge>>
  // CHECK-NEXT: return %[[ROWS]]
  return %s : tensor<?x2xf32, #edge>
}

// -----

// What a reduction gives is read back by edges, and hoisted like other rows.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @read_back
func.func @read_back(%m: tensor<?x1xf32, #edge>) -> tensor<?x1xf32, #edge> {
  // CHECK: %[[S:.*]] = mp.reduce sum dst
  %s = mp.reduce sum dst %m : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  // CHECK: %[[R:.*]] = math.rsqrt %[[S]] {mp.was_on_edges} : tensor<?x1xf32, #mp.rows<0, node>>
  // CHECK: %[[E:.*]] = mp.gather dst %[[R]]
  %e = mp.gather dst %s : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %r = math.rsqrt %e : tensor<?x1xf32, #edge>
  // CHECK: arith.mulf {{.*}}, %[[E]]
  %p = arith.mulf %m, %r : tensor<?x1xf32, #edge>
  return %p : tensor<?x1xf32, #edge>
}

// -----

// What reads parameters only is computed once, for edges as for nodes.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @parameters_only
// CHECK-SAME: (%[[P:[a-z0-9]+]]: tensor<4xf32>
func.func @parameters_only(%p: tensor<4xf32>, %m: tensor<?x2x4xf32, #edge>) -> tensor<?x2x4xf32, #edge> {
  // CHECK: %[[PB:.*]] = mp.broadcast %[[P]] : tensor<4xf32> -> tensor<2x4xf32>
  // CHECK: %[[E:.*]] = math.exp %[[PB]] : tensor<2x4xf32>
  // CHECK: %[[EB:.*]] = mp.broadcast %[[E]] : tensor<2x4xf32> -> tensor<?x2x4xf32, #mp.rows<0, edge>>
  %pb = mp.broadcast %p : tensor<4xf32> -> tensor<?x2x4xf32, #edge>
  %e = math.exp %pb : tensor<?x2x4xf32, #edge>
  // CHECK: arith.mulf %{{.*}}, %[[EB]]
  %r = arith.mulf %m, %e : tensor<?x2x4xf32, #edge>
  return %r : tensor<?x2x4xf32, #edge>
}

// -----

// Rows from two ends differ from edge to edge of one node: nothing moves, though
// both are rows of the same nodes.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @rows_from_two_ends
func.func @rows_from_two_ends(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #edge> {
  // CHECK-COUNT-2: mp.gather
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: math.exp
  // CHECK-NEXT: return
  %from = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %to = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %sum = arith.addf %from, %to : tensor<?x4xf32, #edge>
  %e = math.exp %sum : tensor<?x4xf32, #edge>
  return %e : tensor<?x4xf32, #edge>
}

// -----

// Copies do not move: the wide rows would be stored per node, and gathered.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @copies_stay
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x1xf32, #mp.rows<0, node>>,
func.func @copies_stay(%x: tensor<?x1xf32, #node>, %m: tensor<?x8xf32, #edge>) -> tensor<?x8xf32, #edge> {
  // CHECK-NEXT: %[[G:.*]] = mp.gather src %[[X]]
  // CHECK-NEXT: %[[B:.*]] = mp.broadcast %[[G]]
  // CHECK-NEXT: arith.mulf %{{.*}}, %[[B]]
  %g = mp.gather src %x : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %b = mp.broadcast %g : tensor<?x1xf32, #edge> -> tensor<?x8xf32, #edge>
  %p = arith.mulf %m, %b : tensor<?x8xf32, #edge>
  return %p : tensor<?x8xf32, #edge>
}

// -----

// An outer product is wider than what it is made from: gathering it would read
// 64 numbers per edge instead of 16.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @outer_product_stays
func.func @outer_product_stays(%x: tensor<?x8x1xf32, #node>, %y: tensor<?x1x8xf32, #node>) -> tensor<?x8x8xf32, #edge> {
  // CHECK-NEXT: mp.gather src
  // CHECK-NEXT: mp.gather src
  %xu = mp.gather src %x : tensor<?x8x1xf32, #node> -> tensor<?x8x1xf32, #edge>
  %yu = mp.gather src %y : tensor<?x1x8xf32, #node> -> tensor<?x1x8xf32, #edge>
  %xb = mp.broadcast %xu : tensor<?x8x1xf32, #edge> -> tensor<?x8x8xf32, #edge>
  %yb = mp.broadcast %yu : tensor<?x1x8xf32, #edge> -> tensor<?x8x8xf32, #edge>
  // CHECK: arith.mulf {{.*}} : tensor<?x8x8xf32, #mp.rows<0, edge>>
  %p = arith.mulf %xb, %yb : tensor<?x8x8xf32, #edge>
  return %p : tensor<?x8x8xf32, #edge>
}

// -----

// But it does move when what is made of it is narrow again.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @reduced_outer_product
func.func @reduced_outer_product(%x: tensor<?x8x1xf32, #node>, %y: tensor<?x1x8xf32, #node>) -> tensor<?x8xf32, #edge> {
  %xu = mp.gather src %x : tensor<?x8x1xf32, #node> -> tensor<?x8x1xf32, #edge>
  %yu = mp.gather src %y : tensor<?x1x8xf32, #node> -> tensor<?x1x8xf32, #edge>
  %xb = mp.broadcast %xu : tensor<?x8x1xf32, #edge> -> tensor<?x8x8xf32, #edge>
  %yb = mp.broadcast %yu : tensor<?x1x8xf32, #edge> -> tensor<?x8x8xf32, #edge>
  // CHECK: %[[P:.*]] = arith.mulf {{.*}} : tensor<?x8x8xf32, #mp.rows<0, node>>
  %p = arith.mulf %xb, %yb : tensor<?x8x8xf32, #edge>
  // CHECK: %[[S:.*]] = mp.reduce_axis sum %[[P]] axis 2
  // CHECK: %[[G:.*]] = mp.gather src %[[S]]
  // CHECK-NEXT: return %[[G]]
  %s = mp.reduce_axis sum %p axis 2 : tensor<?x8x8xf32, #edge> -> tensor<?x8xf32, #edge>
  return %s : tensor<?x8xf32, #edge>
}

// -----

// A reduction is not row-wise.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @reductions_stay
func.func @reductions_stay(%x: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #node> {
  // CHECK-NEXT: mp.gather
  // CHECK-NEXT: mp.reduce sum dst
  // CHECK-NEXT: mp.fill_isolated
  // CHECK-NEXT: return
  %m = mp.gather src %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  %f = mp.fill_isolated dst %s, 1.0 : f32 : tensor<?x8xf32, #node> -> tensor<?x8xf32, #node>
  return %f : tensor<?x8xf32, #node>
}

// -----

// A number that is read on edges is checked there: that of a node without such
// edges may be outside of the table.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @lookup_stays
func.func @lookup_stays(%w: tensor<8x4xf32>, %t: tensor<?xi64, #node>) -> tensor<?x4xf32, #edge> {
  // CHECK-NEXT: mp.gather src
  // CHECK-NEXT: mp.lookup
  // CHECK-NEXT: math.exp
  %i = mp.gather src %t : tensor<?xi64, #node> -> tensor<?xi64, #edge>
  %r = mp.lookup %w at %i : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf32, #edge>
  %e = math.exp %r : tensor<?x4xf32, #edge>
  return %e : tensor<?x4xf32, #edge>
}

// -----

// A rounding to 16 bits stays with what is stored: gradients flow through f32.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @rounding_stays
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @rounding_stays(%x: tensor<?x4xf32, #node>) -> tensor<?x4xbf16, #edge> {
  // CHECK-NEXT: %[[ROWS:.*]] = mp.gather src %[[X]]
  // CHECK-NEXT: arith.truncf %[[ROWS]]
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %n = arith.truncf %m : tensor<?x4xf32, #edge> to tensor<?x4xbf16, #edge>
  return %n : tensor<?x4xbf16, #edge>
}
