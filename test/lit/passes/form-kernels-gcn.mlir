// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// Graph convolution, with the norm as a second message field and read again in
// the reducer: one kernel for the product and one for the sum, with no table of
// messages. Scaled rows are all that is stored.

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>

// CHECK-LABEL: func @gcn
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x64xf32{{.*}}, %[[C:[a-z0-9]+]]: tensor<?x1xf32{{.*}}, %[[W:[a-z0-9]+]]: tensor<64x16xf32>, %[[B:[a-z0-9]+]]: tensor<16xf32>)
// CHECK-NEXT: %[[H:.*]] = mp.kernel over #mp.rows<0, node> by dst ({{.*}} = %[[X]], {{.*}} = %[[W]], {{.*}} = %[[C]])
// CHECK-NEXT: mp.linear {{.*}} in_kernel
// CHECK: arith.mulf
// CHECK: mp.yield
// CHECK: mp.kernel over #mp.rows<0, node> by dst ({{.*}} = %[[H]]
// CHECK-DAG: mp.gather src %{{.*}} : tensor<?x16xf32
// CHECK: mp.reduce sum dst
// CHECK: mp.fill_isolated dst
// CHECK: mp.yield
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @gcn(%x: tensor<?x64xf32, #node>, %c: tensor<?x1xf32, #node>, %w: tensor<64x16xf32>, %b: tensor<16xf32>) -> tensor<?x16xf32, #node> {
  %xs = mp.gather src %x : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %cs = mp.gather src %c : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %h = mp.linear %xs, %w : tensor<?x64xf32, #edge>, tensor<64x16xf32> -> tensor<?x16xf32, #edge>
  %mh = mp.mailbox %h : tensor<?x16xf32, #edge> -> tensor<?x?x16xf32, #box>
  %mc = mp.mailbox %cs : tensor<?x1xf32, #edge> -> tensor<?x?x1xf32, #box>
  %cb = mp.broadcast %mc : tensor<?x?x1xf32, #box> -> tensor<?x?x16xf32, #box>
  %p = arith.mulf %mh, %cb : tensor<?x?x16xf32, #box>
  %s = mp.reduce_axis sum %p axis 1 : tensor<?x?x16xf32, #box> -> tensor<?x16xf32, #node>
  %cd = mp.broadcast %c : tensor<?x1xf32, #node> -> tensor<?x16xf32, #node>
  %sc = arith.mulf %s, %cd : tensor<?x16xf32, #node>
  %f = mp.fill_isolated dst %sc, 0.0 : f32 : tensor<?x16xf32, #node> -> tensor<?x16xf32, #node>
  %bb = mp.broadcast %b : tensor<16xf32> -> tensor<?x16xf32, #node>
  %y = arith.addf %f, %bb : tensor<?x16xf32, #node>
  return %y : tensor<?x16xf32, #node>
}
