// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// Attention with 4 heads of 16: scores are sums along a feature axis, per node.
// The kernel that makes the product makes both scores: its rows are not read
// again for them.

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>

// CHECK-LABEL: func @multi_head_gat
// CHECK: %[[S:.*]]:3 = mp.kernel over #mp.rows<0, node> by dst ({{.*}} -> (tensor<?x64xf32, {{.*}}>, tensor<?x4x1xf32, {{.*}}>, tensor<?x4xf32, {{.*}}>)
// CHECK: mp.linear
// CHECK-COUNT-2: mp.reduce_axis sum
// CHECK: mp.yield
// CHECK: mp.kernel over #mp.rows<0, node> by dst ({{.*}} = %[[S]]
// CHECK-NOT: mp.reduce_axis
// CHECK: mp.reduce sum dst {{.*}} -> tensor<?x4x1xf32
// CHECK: mp.reduce sum dst {{.*}} -> tensor<?x4x16xf32
// CHECK: mp.reshape
// CHECK: mp.yield {{.*}} : tensor<?x64xf32
// CHECK: return
func.func @multi_head_gat(%x: tensor<?x32xf32, #node>, %w: tensor<32x64xf32>, %al: tensor<1x4x16xf32>, %ar: tensor<1x4x16xf32>) -> tensor<?x64xf32, #node> {
  %z = mp.linear %x, %w : tensor<?x32xf32, #node>, tensor<32x64xf32> -> tensor<?x64xf32, #node>
  %z3 = mp.reshape %z : tensor<?x64xf32, #node> -> tensor<?x4x16xf32, #node>
  %al2 = mp.reshape %al : tensor<1x4x16xf32> -> tensor<4x16xf32>
  %alb = mp.broadcast %al2 : tensor<4x16xf32> -> tensor<?x4x16xf32, #node>
  %pl = arith.mulf %z3, %alb : tensor<?x4x16xf32, #node>
  %sl = mp.reduce_axis sum %pl axis 2 : tensor<?x4x16xf32, #node> -> tensor<?x4xf32, #node>
  %el = mp.reshape %sl : tensor<?x4xf32, #node> -> tensor<?x4x1xf32, #node>
  %ar2 = mp.reshape %ar : tensor<1x4x16xf32> -> tensor<4x16xf32>
  %arb = mp.broadcast %ar2 : tensor<4x16xf32> -> tensor<?x4x16xf32, #node>
  %pr = arith.mulf %z3, %arb : tensor<?x4x16xf32, #node>
  %sr = mp.reduce_axis sum %pr axis 2 : tensor<?x4x16xf32, #node> -> tensor<?x4xf32, #node>
  %er = mp.reshape %sr : tensor<?x4xf32, #node> -> tensor<?x4x1xf32, #node>
  %u = mp.gather src %el : tensor<?x4x1xf32, #node> -> tensor<?x4x1xf32, #edge>
  %v = mp.gather dst %er : tensor<?x4x1xf32, #node> -> tensor<?x4x1xf32, #edge>
  %s = arith.addf %u, %v : tensor<?x4x1xf32, #edge>
  %slope = mp.fill 0.2 : f32 : tensor<?x4x1xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x4x1xf32, #edge>
  %pos = arith.cmpf ogt, %s, %zero : tensor<?x4x1xf32, #edge>
  %neg = arith.mulf %s, %slope : tensor<?x4x1xf32, #edge>
  %e = arith.select %pos, %s, %neg : tensor<?x4x1xi1, #edge>, tensor<?x4x1xf32, #edge>
  %a = mp.softmax dst %e : tensor<?x4x1xf32, #edge>
  %ab = mp.broadcast %a : tensor<?x4x1xf32, #edge> -> tensor<?x4x16xf32, #edge>
  %zu = mp.gather src %z3 : tensor<?x4x16xf32, #node> -> tensor<?x4x16xf32, #edge>
  %m = arith.mulf %ab, %zu : tensor<?x4x16xf32, #edge>
  %h = mp.reduce sum dst %m : tensor<?x4x16xf32, #edge> -> tensor<?x4x16xf32, #node>
  %y = mp.reshape %h : tensor<?x4x16xf32, #node> -> tensor<?x64xf32, #node>
  return %y : tensor<?x64xf32, #node>
}
