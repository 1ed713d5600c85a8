// RUN: gossamer-opt %s --mp-differentiate="mode=forward wrt=0" | FileCheck %s --check-prefix=FORWARD
// RUN: gossamer-opt %s --mp-differentiate="mode=backward wrt=0" | FileCheck %s --check-prefix=BACKWARD

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// What relu masks has no first edge: one table is saved for both. Edges read the
// gradient as it comes, and the node's own is masked by the positions.
// FORWARD-LABEL: func @relu_of_max
// FORWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x4xi32, #mp.rows<0, node>>) {
// FORWARD: %[[MASK:.*]] = arith.cmpf ole
// FORWARD: %[[FIRST:.*]] = mp.reduce min dst
// FORWARD: %[[WHERE:.*]] = arith.select %[[MASK]], %{{.*}}, %[[FIRST]]
// FORWARD: return %{{.*}}, %[[WHERE]]
// BACKWARD-LABEL: func @relu_of_max
// BACKWARD-SAME: %[[WHERE:[^:]*]]: tensor<?x4xi32, #mp.rows<0, node>>, %[[G:[^:]*]]: tensor<?x4xf32, #mp.rows<0, node>>)
// BACKWARD-DAG: mp.gather dst %[[G]]
// BACKWARD-DAG: mp.gather dst %[[WHERE]]
// BACKWARD-DAG: %[[NONE:.*]] = mp.fill 2147483647 : i32 : tensor<?x4xi32, #mp.rows<0, node>>
// BACKWARD-DAG: %[[MASKED:.*]] = arith.cmpi eq, %[[WHERE]], %[[NONE]]
// BACKWARD-DAG: arith.select %[[MASKED]], %{{.*}}, %[[G]]
func.func @relu_of_max(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = mp.reduce max dst %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %s = arith.addf %m, %x : tensor<?x4xf32, #node>
  %z = mp.fill 0.0 : f32 : tensor<?x4xf32, #node>
  %p = arith.cmpf ole, %s, %z : tensor<?x4xf32, #node>
  %h = arith.select %p, %z, %s : tensor<?x4xi1, #node>, tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// Nodes without edges, and what a second mask lets through, are masked as well.
// FORWARD-LABEL: func @clamped_min
// FORWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x4xi32, #mp.rows<0, node>>) {
// FORWARD: %[[ISOLATED:.*]] = mp.fill_isolated dst %{{.*}}, 2147483647 : i32
// BACKWARD-LABEL: func @clamped_min
// BACKWARD-NOT: mp.fill_isolated
// BACKWARD-NOT: arith.cmpf
// BACKWARD: return
func.func @clamped_min(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = mp.reduce min dst %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %s = arith.addf %m, %x : tensor<?x4xf32, #node>
  %z = mp.fill 0.0 : f32 : tensor<?x4xf32, #node>
  %o = mp.fill 1.0 : f32 : tensor<?x4xf32, #node>
  %p = arith.cmpf ogt, %s, %z : tensor<?x4xf32, #node>
  %q = arith.cmpf olt, %s, %o : tensor<?x4xf32, #node>
  %a = arith.select %p, %s, %z : tensor<?x4xi1, #node>, tensor<?x4xf32, #node>
  %b = arith.select %q, %a, %o : tensor<?x4xi1, #node>, tensor<?x4xf32, #node>
  %h = mp.fill_isolated dst %b, 0.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// A slope that is not 0 is no mask.
// FORWARD-LABEL: func @leaky
// FORWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x4xi1, #mp.rows<0, node>>, tensor<?x4xi32, #mp.rows<0, node>>) {
// BACKWARD-LABEL: func @leaky
// BACKWARD-NOT: mp.fill 2147483647
// BACKWARD: return
func.func @leaky(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = mp.reduce max dst %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %z = mp.fill 0.0 : f32 : tensor<?x4xf32, #node>
  %c = mp.fill 0.5 : f32 : tensor<?x4xf32, #node>
  %p = arith.cmpf ogt, %m, %z : tensor<?x4xf32, #node>
  %l = arith.mulf %m, %c : tensor<?x4xf32, #node>
  %h = arith.select %p, %m, %l : tensor<?x4xi1, #node>, tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// A mask that the backward computes anyway is left where it is.
// FORWARD-LABEL: func @mask_of_an_argument
// FORWARD-NOT: arith.select %{{.*}} : tensor<?x4xi1, #mp.rows<0, node>>, tensor<?x4xi32, #mp.rows<0, node>>
// FORWARD: return
// BACKWARD-LABEL: func @mask_of_an_argument
// BACKWARD: %[[P:.*]] = arith.cmpf ogt, %arg0
// BACKWARD: arith.select %[[P]]
func.func @mask_of_an_argument(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = mp.reduce max dst %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %z = mp.fill 0.0 : f32 : tensor<?x4xf32, #node>
  %p = arith.cmpf ogt, %x, %z : tensor<?x4xf32, #node>
  %h = arith.select %p, %m, %z : tensor<?x4xi1, #node>, tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}
