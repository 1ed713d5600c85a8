// RUN: gossamer-opt %s --mp-pipeline="differentiate=backward wrt=0,1,2" | FileCheck %s
// RUN: gossamer-opt %s --mp-pipeline="differentiate=forward wrt=0,1,2" | FileCheck %s --check-prefix=FORWARD

// Training needs no more rows per edge than inference: gradients of nodes are
// reductions over the edges that leave them.

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// One kernel, by source, in it the product, and the gradient of the weight.
// CHECK-LABEL: func @gcn
// CHECK: %[[B:.*]] = mp.sum_rows
// CHECK: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by src
// CHECK: mp.gather dst
// CHECK: mp.reduce sum src
// CHECK: mp.linear
// CHECK: mp.contract_rows
// CHECK: }
// CHECK-NOT: mp.kernel
// CHECK: return %[[K]]#1, %[[K]]#0, %[[B]]
// Nothing is saved.
// FORWARD-LABEL: func @gcn
// FORWARD-SAME: -> tensor<?x16xf32, #mp.rows<0, node>> {
func.func @gcn(%x: tensor<?x64xf32, #node>, %w: tensor<64x16xf32>, %b: tensor<16xf32>, %n: tensor<?x1xf32, #node>) -> tensor<?x16xf32, #node> {
  %xw = mp.linear %x, %w : tensor<?x64xf32, #node>, tensor<64x16xf32> -> tensor<?x16xf32, #node>
  %xs = mp.gather src %xw : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %ns = mp.gather src %n : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %nb = mp.broadcast %ns : tensor<?x1xf32, #edge> -> tensor<?x16xf32, #edge>
  %m = arith.mulf %xs, %nb : tensor<?x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
  %f = mp.fill_isolated dst %s, 0.0 : f32 : tensor<?x16xf32, #node> -> tensor<?x16xf32, #node>
  %nn = mp.broadcast %n : tensor<?x1xf32, #node> -> tensor<?x16xf32, #node>
  %h = arith.mulf %f, %nn : tensor<?x16xf32, #node>
  %bb = mp.broadcast %b : tensor<16xf32> -> tensor<?x16xf32, #node>
  %o = arith.addf %h, %bb : tensor<?x16xf32, #node>
  return %o : tensor<?x16xf32, #node>
}

// One kernel by destination and one by source. What they compute per edge stays
// inside: all outputs are rows of nodes, and the gradients of weights.
// CHECK-LABEL: func @gat
// CHECK-COUNT-1: mp.kernel over #mp.rows<0, node> by dst {{.*}} -> (tensor<16x1xf32>, tensor<?x1xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>)
// CHECK: mp.kernel over #mp.rows<0, node> by src {{.*}} -> (tensor<16x1xf32>, tensor<64x16xf32>, tensor<?x64xf32, #mp.rows<0, node>>)
// CHECK: mp.yield
// CHECK-NOT: mp.gather
// CHECK: return
// Saved: two products, and the maximum and the sum of each softmax.
// FORWARD-LABEL: func @gat
// FORWARD-SAME: -> (tensor<?x16xf32, #mp.rows<0, node>>, tensor<?x16xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>)
// FORWARD-COUNT-2: mp.kernel
// FORWARD-NOT: mp.kernel
// FORWARD: return
func.func @gat(%x: tensor<?x64xf32, #node>, %w: tensor<64x16xf32>, %a: tensor<32x1xf32>) -> tensor<?x16xf32, #node> {
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
  %me = mp.mailbox %e : tensor<?x1xf32, #edge> -> tensor<?x?x1xf32, #mp.rows<0, mailbox>>
  %mz = mp.mailbox %zs : tensor<?x16xf32, #edge> -> tensor<?x?x16xf32, #mp.rows<0, mailbox>>
  %al = mp.softmax_axis %me axis 1 : tensor<?x?x1xf32, #mp.rows<0, mailbox>>
  %ab = mp.broadcast %al : tensor<?x?x1xf32, #mp.rows<0, mailbox>> -> tensor<?x?x16xf32, #mp.rows<0, mailbox>>
  %p = arith.mulf %ab, %mz : tensor<?x?x16xf32, #mp.rows<0, mailbox>>
  %s = mp.reduce_axis sum %p axis 1 : tensor<?x?x16xf32, #mp.rows<0, mailbox>> -> tensor<?x16xf32, #node>
  %f = mp.fill_isolated dst %s, 0.0 : f32 : tensor<?x16xf32, #node> -> tensor<?x16xf32, #node>
  return %f : tensor<?x16xf32, #node>
}

// Which edge attained each maximum is saved; the messages are not computed
// again, and what nodes add to all their messages needs no edges.
// CHECK-LABEL: func @edgeconv
// CHECK: mp.kernel over #mp.rows<0, node> by src {{.*}}i32{{.*}} -> (tensor<64x16xf32>, tensor<?x64xf32, #mp.rows<0, node>>)
// CHECK: mp.reduce sum src
// CHECK: mp.yield
// CHECK-NOT: mp.gather
// CHECK: return
// FORWARD-LABEL: func @edgeconv
// FORWARD-SAME: -> (tensor<?x16xf32, #mp.rows<0, node>>, tensor<?x16xi32, #mp.rows<0, node>>)
func.func @edgeconv(%x: tensor<?x64xf32, #node>, %w: tensor<64x16xf32>, %v: tensor<64x16xf32>, %b: tensor<16xf32>) -> tensor<?x16xf32, #node> {
  %xs = mp.gather src %x : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %xd = mp.gather dst %x : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %d = arith.subf %xs, %xd : tensor<?x64xf32, #edge>
  %t = mp.linear %d, %w : tensor<?x64xf32, #edge>, tensor<64x16xf32> -> tensor<?x16xf32, #edge>
  %p = mp.linear %xd, %v : tensor<?x64xf32, #edge>, tensor<64x16xf32> -> tensor<?x16xf32, #edge>
  %s = arith.addf %t, %p : tensor<?x16xf32, #edge>
  %bb = mp.broadcast %b : tensor<16xf32> -> tensor<?x16xf32, #edge>
  %e = arith.addf %s, %bb : tensor<?x16xf32, #edge>
  %me = mp.mailbox %e : tensor<?x16xf32, #edge> -> tensor<?x?x16xf32, #mp.rows<0, mailbox>>
  %m = mp.reduce_axis max %me axis 1 : tensor<?x?x16xf32, #mp.rows<0, mailbox>> -> tensor<?x16xf32, #node>
  %f = mp.fill_isolated dst %m, 0.0 : f32 : tensor<?x16xf32, #node> -> tensor<?x16xf32, #node>
  return %f : tensor<?x16xf32, #node>
}
