// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// Attention as in DGL's tutorial: a product with the concatenation of both rows
// per edge, softmax over the mailbox, and the scores left on the edges. The
// scores are two products per node, in the kernel that makes their input, and one
// kernel does the rest.

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>

// CHECK-LABEL: func @gat
// CHECK: %[[Z:.*]]:3 = mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.linear {{.*}} -> tensor<?x16xf32, #mp.rows<0, node>>
// CHECK-COUNT-2: mp.linear {{.*}} -> tensor<?x1xf32, #mp.rows<0, node>>
// CHECK: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by dst
// CHECK-NOT: mp.linear
// CHECK: mp.reduce max dst
// CHECK: math.exp
// CHECK: mp.reduce sum dst {{.*}} -> tensor<?x1xf32, #mp.rows<0, node>>
// CHECK: mp.reduce sum dst {{.*}} -> tensor<?x16xf32, #mp.rows<0, node>>
// CHECK: arith.divf {{.*}} : tensor<?x16xf32, #mp.rows<0, node>>
// CHECK-COUNT-1: mp.fill_isolated
// CHECK-NOT: mp.fill_isolated
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @gat(%x: tensor<?x64xf32, #node>, %w: tensor<64x16xf32>, %a: tensor<32x1xf32>) -> (tensor<?x16xf32, #node>, tensor<?x1xf32, #edge>) {
  %z = mp.linear %x, %w : tensor<?x64xf32, #node>, tensor<64x16xf32> -> tensor<?x16xf32, #node>
  %zs = mp.gather src %z : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %zd = mp.gather dst %z : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %c = mp.concat %zs, %zd axis 1 : tensor<?x16xf32, #edge>, tensor<?x16xf32, #edge> -> tensor<?x32xf32, #edge>
  %l = mp.linear %c, %a : tensor<?x32xf32, #edge>, tensor<32x1xf32> -> tensor<?x1xf32, #edge>
  %slope = mp.fill 0.01 : f32 : tensor<?x1xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x1xf32, #edge>
  %pos = arith.cmpf ogt, %l, %zero : tensor<?x1xf32, #edge>
  %sl = arith.mulf %l, %slope : tensor<?x1xf32, #edge>
  %e = arith.select %pos, %l, %sl : tensor<?x1xi1, #edge>, tensor<?x1xf32, #edge>
  %me = mp.mailbox %e : tensor<?x1xf32, #edge> -> tensor<?x?x1xf32, #box>
  %mz = mp.mailbox %zs : tensor<?x16xf32, #edge> -> tensor<?x?x16xf32, #box>
  %al = mp.softmax_axis %me axis 1 : tensor<?x?x1xf32, #box>
  %ab = mp.broadcast %al : tensor<?x?x1xf32, #box> -> tensor<?x?x16xf32, #box>
  %p = arith.mulf %ab, %mz : tensor<?x?x16xf32, #box>
  %s = mp.reduce_axis sum %p axis 1 : tensor<?x?x16xf32, #box> -> tensor<?x16xf32, #node>
  %f = mp.fill_isolated dst %s, 0.0 : f32 : tensor<?x16xf32, #node> -> tensor<?x16xf32, #node>
  return %f, %e : tensor<?x16xf32, #node>, tensor<?x1xf32, #edge>
}
