// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// Two outputs of one MLP per edge, one of which scales differences of positions.
// What can be is computed per node; the rest, products included, is one kernel.

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// CHECK-LABEL: func @egnn
// CHECK: mp.kernel over #mp.rows<0, node> by dst
// CHECK-NEXT: mp.linear {{.*}} -> tensor<?x32xf32, #mp.rows<0, node>>
// CHECK: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.linear {{.*}} -> tensor<?x32xf32, #mp.rows<0, node>>
// CHECK: mp.linear {{.*}} -> tensor<?x32xf32, #mp.rows<0, edge>>
// CHECK: %[[M:.*]] = arith.maximumf
// CHECK: mp.linear %[[M]], {{.*}} -> tensor<?x1xf32, #mp.rows<0, edge>>
// CHECK: mp.reduce sum dst %[[M]]
// CHECK: mp.reduce sum dst
// CHECK-NOT: mp.kernel
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @egnn(%h: tensor<?x16xf32, #node>, %x: tensor<?x3xf32, #node>, %w1: tensor<33x32xf32>, %w2: tensor<32x1xf32>)
    -> (tensor<?x32xf32, #node>, tensor<?x3xf32, #node>) {
  %hu = mp.gather src %h : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %hv = mp.gather dst %h : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %xu = mp.gather src %x : tensor<?x3xf32, #node> -> tensor<?x3xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x3xf32, #node> -> tensor<?x3xf32, #edge>
  %dx = arith.subf %xu, %xv : tensor<?x3xf32, #edge>
  %sq = arith.mulf %dx, %dx : tensor<?x3xf32, #edge>
  %d = mp.reduce_axis sum %sq axis 1 : tensor<?x3xf32, #edge> -> tensor<?xf32, #edge>
  %d1 = mp.reshape %d : tensor<?xf32, #edge> -> tensor<?x1xf32, #edge>
  %c = mp.concat %hu, %hv, %d1 axis 1 : tensor<?x16xf32, #edge>, tensor<?x16xf32, #edge>, tensor<?x1xf32, #edge> -> tensor<?x33xf32, #edge>
  %z = mp.linear %c, %w1 : tensor<?x33xf32, #edge>, tensor<33x32xf32> -> tensor<?x32xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x32xf32, #edge>
  %m = arith.maximumf %z, %zero : tensor<?x32xf32, #edge>
  %psi = mp.linear %m, %w2 : tensor<?x32xf32, #edge>, tensor<32x1xf32> -> tensor<?x1xf32, #edge>
  %psib = mp.broadcast %psi : tensor<?x1xf32, #edge> -> tensor<?x3xf32, #edge>
  %mx = arith.mulf %psib, %dx : tensor<?x3xf32, #edge>
  %sm = mp.reduce sum dst %m : tensor<?x32xf32, #edge> -> tensor<?x32xf32, #node>
  %sx = mp.reduce sum dst %mx : tensor<?x3xf32, #edge> -> tensor<?x3xf32, #node>
  %nx = arith.addf %x, %sx : tensor<?x3xf32, #node>
  return %sm, %nx : tensor<?x32xf32, #node>, tensor<?x3xf32, #node>
}
