// RUN: gossamer-opt %s --mp-resolve-mailbox --canonicalize --split-input-file | FileCheck %s

// A sum over the messages is a reduction over the edges; what happens to each
// message alone happens to its edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
// CHECK-LABEL: func @sum_of_messages
// CHECK-SAME: (%[[M:[a-z0-9]+]]: tensor<?x4xf32, #mp.rows<0, edge>>, %[[B:[a-z0-9]+]]: tensor<4xf32>)
func.func @sum_of_messages(%m: tensor<?x4xf32, #edge>, %b: tensor<4xf32>) -> tensor<?x4xf32, #node> {
  %box = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  // CHECK: %[[BB:.*]] = mp.broadcast %[[B]] : tensor<4xf32> -> tensor<?x4xf32, #mp.rows<0, edge>>
  %bb = mp.broadcast %b : tensor<4xf32> -> tensor<?x?x4xf32, #box>
  // CHECK: %[[P:.*]] = arith.mulf %[[M]], %[[BB]] : tensor<?x4xf32, #mp.rows<0, edge>>
  %p = arith.mulf %box, %bb : tensor<?x?x4xf32, #box>
  // CHECK: %[[S:.*]] = mp.reduce sum dst %[[P]]
  %s = mp.reduce_axis sum %p axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #node>
  // CHECK: return %[[S]]
  return %s : tensor<?x4xf32, #node>
}

// -----

// A row of the destination is read at the end of the edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
// CHECK-LABEL: func @destination_row
// CHECK-SAME: (%[[M:[a-z0-9]+]]: tensor{{.*}}, %[[X:[a-z0-9]+]]: tensor<?x4xf32, #mp.rows<0, node>>, %[[C:[a-z0-9]+]]: tensor
func.func @destination_row(%m: tensor<?x4xf32, #edge>, %x: tensor<?x4xf32, #node>, %c: tensor<?x1xf32, #node>)
    -> tensor<?x4xf32, #node> {
  %box = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  %x1 = mp.reshape %x : tensor<?x4xf32, #node> -> tensor<?x1x4xf32, #node>
  // CHECK: %[[XV:.*]] = mp.gather dst %[[X]] : tensor<?x4xf32, #mp.rows<0, node>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  %xb = mp.broadcast %x1 : tensor<?x1x4xf32, #node> -> tensor<?x?x4xf32, #box>
  // CHECK: %[[D:.*]] = arith.subf %[[M]], %[[XV]]
  %d = arith.subf %box, %xb : tensor<?x?x4xf32, #box>
  %c1 = mp.reshape %c : tensor<?x1xf32, #node> -> tensor<?x1x1xf32, #node>
  // CHECK: %[[CV:.*]] = mp.gather dst %[[C]]
  // CHECK: %[[CB:.*]] = mp.broadcast %[[CV]] : tensor<?x1xf32, #mp.rows<0, edge>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  %cb = mp.broadcast %c1 : tensor<?x1x1xf32, #node> -> tensor<?x?x4xf32, #box>
  // CHECK: arith.mulf %[[D]], %[[CB]]
  %p = arith.mulf %d, %cb : tensor<?x?x4xf32, #box>
  // CHECK: mp.reduce max dst
  %s = mp.reduce_axis max %p axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// Softmax over the messages is softmax over the edges that end at a node.
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
// CHECK-LABEL: func @softmax_over_messages
// CHECK-SAME: (%[[E:[a-z0-9]+]]: tensor<?x1xf32{{.*}}, %[[M:[a-z0-9]+]]: tensor
func.func @softmax_over_messages(%e: tensor<?x1xf32, #edge>, %m: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #dst> {
  %be = mp.mailbox %e : tensor<?x1xf32, #edge> -> tensor<?x?x1xf32, #box>
  %bm = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  // CHECK: %[[A:.*]] = mp.softmax dst %[[E]]
  %a = mp.softmax_axis %be axis 1 : tensor<?x?x1xf32, #box>
  // CHECK: %[[AB:.*]] = mp.broadcast %[[A]]
  %ab = mp.broadcast %a : tensor<?x?x1xf32, #box> -> tensor<?x?x4xf32, #box>
  // CHECK: %[[P:.*]] = arith.mulf %[[AB]], %[[M]]
  %p = arith.mulf %ab, %bm : tensor<?x?x4xf32, #box>
  // CHECK: mp.reduce sum dst %[[P]] : {{.*}} -> tensor<?x4xf32, #mp.rows<0, dst>>
  %s = mp.reduce_axis sum %p axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #dst>
  return %s : tensor<?x4xf32, #dst>
}

// -----

// Axes behind the messages move up by one.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
// CHECK-LABEL: func @axes_behind_the_messages
func.func @axes_behind_the_messages(%m: tensor<?x4x6xf32, #edge>, %w: tensor<6x2xf32>) -> tensor<?x2xf32, #node> {
  %b = mp.mailbox %m : tensor<?x4x6xf32, #edge> -> tensor<?x?x4x6xf32, #box>
  // CHECK: mp.linear {{.*}} -> tensor<?x4x2xf32, #mp.rows<0, edge>>
  %l = mp.linear %b, %w : tensor<?x?x4x6xf32, #box>, tensor<6x2xf32> -> tensor<?x?x4x2xf32, #box>
  // CHECK: mp.transpose {{.*}} [0, 2, 1]
  %t = mp.transpose %l [0, 1, 3, 2] : tensor<?x?x4x2xf32, #box> -> tensor<?x?x2x4xf32, #box>
  // CHECK: mp.slice {{.*}} axis 2 from 1 by 1
  %s = mp.slice %t axis 3 from 1 by 1 : tensor<?x?x2x4xf32, #box> -> tensor<?x?x2x2xf32, #box>
  // CHECK: mp.concat {{.*}} axis 2
  %c = mp.concat %s, %s axis 3 : tensor<?x?x2x2xf32, #box>, tensor<?x?x2x2xf32, #box> -> tensor<?x?x2x4xf32, #box>
  // CHECK: mp.reduce_axis sum {{.*}} axis 2
  %r = mp.reduce_axis sum %c axis 3 : tensor<?x?x2x4xf32, #box> -> tensor<?x?x2xf32, #box>
  // CHECK: mp.reduce mean dst
  %n = mp.reduce_axis mean %r axis 1 : tensor<?x?x2xf32, #box> -> tensor<?x2xf32, #node>
  return %n : tensor<?x2xf32, #node>
}

// -----

// Comparisons and choices in a mailbox keep their element types.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
// CHECK-LABEL: func @choice_per_message
func.func @choice_per_message(%m: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  %b = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  // CHECK: %[[ZERO:.*]] = mp.fill 0.000000e+00 : f32 : tensor<?x4xf32, #mp.rows<0, edge>>
  %zero = mp.fill 0.0 : f32 : tensor<?x?x4xf32, #box>
  // CHECK: arith.cmpf ogt, {{.*}} : tensor<?x4xf32, #mp.rows<0, edge>>
  %c = arith.cmpf ogt, %b, %zero : tensor<?x?x4xf32, #box>
  // CHECK: arith.select {{.*}} : tensor<?x4xi1, #mp.rows<0, edge>>, tensor<?x4xf32, #mp.rows<0, edge>>
  %s = arith.select %c, %b, %zero : tensor<?x?x4xi1, #box>, tensor<?x?x4xf32, #box>
  %n = mp.reduce_axis min %s axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #node>
  return %n : tensor<?x4xf32, #node>
}

// -----

// What has no mailbox stays as it is.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @no_mailbox
func.func @no_mailbox(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: mp.gather src
  // CHECK-NEXT: mp.reduce sum dst
  // CHECK-NEXT: return
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// Numbers in a mailbox are those of its edges.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>
// CHECK-LABEL: func @lookup_in_mailbox
// CHECK-SAME: (%[[T:[a-z0-9]+]]: tensor<?xi64, #mp.rows<0, edge>>, %[[W:[a-z0-9]+]]: tensor
func.func @lookup_in_mailbox(%t: tensor<?xi64, #edge>, %w: tensor<8x4xf32>) -> tensor<?x4xf32, #node> {
  %box = mp.mailbox %t : tensor<?xi64, #edge> -> tensor<?x?xi64, #box>
  // CHECK: %[[R:.*]] = mp.lookup %[[W]] at %[[T]] : {{.*}} -> tensor<?x4xf32, #mp.rows<0, edge>>
  %r = mp.lookup %w at %box : tensor<8x4xf32>, tensor<?x?xi64, #box> -> tensor<?x?x4xf32, #box>
  // CHECK: mp.reduce sum dst %[[R]]
  %s = mp.reduce_axis sum %r axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}
