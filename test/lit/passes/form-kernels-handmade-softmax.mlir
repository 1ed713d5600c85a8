// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// A softmax written by hand, with exp(m) / sum(exp(m)) in the mailbox: the weights
// leave the sum just as those of mp.softmax do.

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>

// CHECK-LABEL: func @handmade_softmax
// CHECK-NEXT: mp.kernel over #mp.rows<0, node> by dst
// CHECK: %[[P:.*]] = math.exp
// CHECK: %[[Z:.*]] = mp.reduce sum dst %[[P]]
// CHECK: %[[S:.*]] = mp.reduce sum dst
// CHECK: arith.divf {{.*}} #mp.rows<0, node>>
// CHECK: mp.fill_isolated dst %{{.*}}, 0.000000e+00
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @handmade_softmax(%x: tensor<?x4xf32, #node>, %e: tensor<?x1xf32, #edge>) -> tensor<?x4xf32, #node> {
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %bx = mp.mailbox %xu : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  %be = mp.mailbox %e : tensor<?x1xf32, #edge> -> tensor<?x?x1xf32, #box>
  %p = math.exp %be : tensor<?x?x1xf32, #box>
  %z = mp.reduce_axis sum %p axis 1 : tensor<?x?x1xf32, #box> -> tensor<?x1xf32, #node>
  %z1 = mp.reshape %z : tensor<?x1xf32, #node> -> tensor<?x1x1xf32, #node>
  %zb = mp.broadcast %z1 : tensor<?x1x1xf32, #node> -> tensor<?x?x1xf32, #box>
  %a = arith.divf %p, %zb : tensor<?x?x1xf32, #box>
  %ab = mp.broadcast %a : tensor<?x?x1xf32, #box> -> tensor<?x?x4xf32, #box>
  %m = arith.mulf %ab, %bx : tensor<?x?x4xf32, #box>
  %h = mp.reduce_axis sum %m axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}
