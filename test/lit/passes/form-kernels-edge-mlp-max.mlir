// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// max of relu(W [x_v, x_u - x_v] + b) and then a second product, which a maximum
// does not let out: the first moves to the nodes, the second stays on edges. The
// part of the row itself is multiplied where the row is visited.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// CHECK-LABEL: func @edge_mlp_max
// CHECK: mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.linear {{.*}} -> tensor<?x8xf32, #mp.rows<0, node>>
// CHECK: mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.linear {{.*}} -> tensor<?x8xf32, #mp.rows<0, node>>
// CHECK-NOT: mp.linear
// CHECK: mp.linear {{.*}} -> tensor<?x6xf32, #mp.rows<0, edge>>
// CHECK-NEXT: mp.reduce max dst
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @edge_mlp_max(%x: tensor<?x3xf32, #node>, %w: tensor<6x8xf32>, %b: tensor<8xf32>, %w2: tensor<8x6xf32>) -> tensor<?x6xf32, #node> {
  %xu = mp.gather src %x : tensor<?x3xf32, #node> -> tensor<?x3xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x3xf32, #node> -> tensor<?x3xf32, #edge>
  %d = arith.subf %xu, %xv : tensor<?x3xf32, #edge>
  %c = mp.concat %xv, %d axis 1 : tensor<?x3xf32, #edge>, tensor<?x3xf32, #edge> -> tensor<?x6xf32, #edge>
  %l = mp.linear %c, %w : tensor<?x6xf32, #edge>, tensor<6x8xf32> -> tensor<?x8xf32, #edge>
  %bb = mp.broadcast %b : tensor<8xf32> -> tensor<?x8xf32, #edge>
  %lb = arith.addf %l, %bb : tensor<?x8xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x8xf32, #edge>
  %r = arith.maximumf %lb, %zero : tensor<?x8xf32, #edge>
  %l2 = mp.linear %r, %w2 : tensor<?x8xf32, #edge>, tensor<8x6xf32> -> tensor<?x6xf32, #edge>
  %h = mp.reduce max dst %l2 : tensor<?x6xf32, #edge> -> tensor<?x6xf32, #node>
  return %h : tensor<?x6xf32, #node>
}
