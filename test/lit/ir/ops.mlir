// RUN: gossamer-opt %s | gossamer-opt | FileCheck %s

// Every op prints what it parses.

#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
#box = #mp.rows<0, mailbox>

// CHECK-LABEL: func @between_nodes_and_edges
func.func @between_nodes_and_edges(%x: tensor<?x4xf32, #src>) -> tensor<?x4xf32, #dst> {
  // CHECK: mp.gather src %{{.*}} : tensor<?x4xf32, #mp.rows<0, src>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  %m = mp.gather src %x : tensor<?x4xf32, #src> -> tensor<?x4xf32, #edge>
  // CHECK: mp.softmax dst %{{.*}} : tensor<?x4xf32, #mp.rows<0, edge>>
  %a = mp.softmax dst %m : tensor<?x4xf32, #edge>
  // CHECK: mp.reduce sum dst
  %s = mp.reduce sum dst %a : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #dst>
  // CHECK: mp.fill_isolated dst %{{.*}}, 0.000000e+00 : f32 : tensor
  %f = mp.fill_isolated dst %s, 0.0 : f32 : tensor<?x4xf32, #dst> -> tensor<?x4xf32, #dst>
  // CHECK: mp.prefix
  %p = mp.prefix %x : tensor<?x4xf32, #src> -> tensor<?x4xf32, #dst>
  // CHECK: arith.addf
  %y = arith.addf %f, %p : tensor<?x4xf32, #dst>
  return %y : tensor<?x4xf32, #dst>
}

// CHECK-LABEL: func @every_reduction
func.func @every_reduction(%m: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  // CHECK: mp.reduce mean src
  %a = mp.reduce mean src %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  // CHECK: mp.reduce max dst
  %b = mp.reduce max dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  // CHECK: mp.reduce min dst
  %c = mp.reduce min dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  // CHECK: mp.reduce prod dst
  %d = mp.reduce prod dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %ab = arith.addf %a, %b : tensor<?x4xf32, #node>
  %cd = arith.addf %c, %d : tensor<?x4xf32, #node>
  %abcd = arith.addf %ab, %cd : tensor<?x4xf32, #node>
  return %abcd : tensor<?x4xf32, #node>
}

// CHECK-LABEL: func @mailbox
func.func @mailbox(%m: tensor<?x4xf32, #edge>, %x: tensor<?x1x4xf32, #node>)
    -> (tensor<?x4xf32, #node>, tensor<?xi64, #node>) {
  // CHECK: mp.mailbox
  %b = mp.mailbox %m : tensor<?x4xf32, #edge> -> tensor<?x?x4xf32, #box>
  // CHECK: mp.broadcast
  %v = mp.broadcast %x : tensor<?x1x4xf32, #node> -> tensor<?x?x4xf32, #box>
  %p = arith.mulf %b, %v : tensor<?x?x4xf32, #box>
  // CHECK: mp.softmax_axis %{{.*}} axis 1
  %a = mp.softmax_axis %p axis 1 : tensor<?x?x4xf32, #box>
  // CHECK: mp.reduce_axis sum %{{.*}} axis 1
  %s = mp.reduce_axis sum %a axis 1 : tensor<?x?x4xf32, #box> -> tensor<?x4xf32, #node>
  // CHECK: mp.degree dst : tensor<?xi64, #mp.rows<0, node>>
  %d = mp.degree dst : tensor<?xi64, #node>
  return %s, %d : tensor<?x4xf32, #node>, tensor<?xi64, #node>
}

// CHECK-LABEL: func @along_features
func.func @along_features(%x: tensor<?x4xf32, #node>, %w: tensor<3x4xf32>) -> tensor<?x3x1xf32, #node> {
  // CHECK: mp.fill 5.000000e-01 : f32 : tensor<?x4xf32, #mp.rows<0, node>>
  %half = mp.fill 0.5 : f32 : tensor<?x4xf32, #node>
  // CHECK: mp.concat %{{.*}}, %{{.*}} axis 1
  %c = mp.concat %x, %half axis 1 : tensor<?x4xf32, #node>, tensor<?x4xf32, #node> -> tensor<?x8xf32, #node>
  // CHECK: mp.slice %{{.*}} axis 1 from 1 by 2
  %s = mp.slice %c axis 1 from 1 by 2 : tensor<?x8xf32, #node> -> tensor<?x4xf32, #node>
  // CHECK: mp.transpose %{{.*}} [1, 0]
  %t = mp.transpose %w [1, 0] : tensor<3x4xf32> -> tensor<4x3xf32>
  // CHECK: mp.linear %{{.*}}, %{{.*}} : tensor<?x4xf32, #mp.rows<0, node>>, tensor<4x3xf32>
  %y = mp.linear %s, %t : tensor<?x4xf32, #node>, tensor<4x3xf32> -> tensor<?x3xf32, #node>
  // CHECK: mp.reshape
  %r = mp.reshape %y : tensor<?x3xf32, #node> -> tensor<?x3x1xf32, #node>
  return %r : tensor<?x3x1xf32, #node>
}

// CHECK-LABEL: func @random
func.func @random(%seed: tensor<i64>) -> (tensor<?x4x1xf32, #edge>, tensor<?xf64, #dst>, tensor<3xf32>) {
  // CHECK: mp.uniform %{{.*}} stream 0 : tensor<?x4x1xf32, #mp.rows<0, edge>>
  %u = mp.uniform %seed stream 0 : tensor<?x4x1xf32, #edge>
  // CHECK: mp.uniform %{{.*}} stream 1 : tensor<?xf64, #mp.rows<0, dst>>
  %v = mp.uniform %seed stream 1 : tensor<?xf64, #dst>
  // CHECK: mp.uniform %{{.*}} stream 2 : tensor<3xf32>
  %w = mp.uniform %seed stream 2 : tensor<3xf32>
  return %u, %v, %w : tensor<?x4x1xf32, #edge>, tensor<?xf64, #dst>, tensor<3xf32>
}

// CHECK-LABEL: func @kernels
func.func @kernels(%x: tensor<?x4xf32, #node>, %w: tensor<4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK: mp.kernel over params (%[[IN:.*]] = %{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
  %v = mp.kernel over params (%p = %w) : (tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: math.exp %[[IN]]
    %e = math.exp %p : tensor<4xf32>
    mp.yield %e : tensor<4xf32>
  }
  // CHECK: mp.kernel over #mp.rows<0, node> by src (%[[A:.*]] = %{{.*}}, %{{.*}} = %{{.*}}) :
  %h = mp.kernel over #node by src (%a = %x, %b = %v)
      : (tensor<?x4xf32, #node>, tensor<4xf32>) -> tensor<?x4xf32, #node> {
    // CHECK: mp.gather dst %[[A]]
    %m = mp.gather dst %a : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
    %bb = mp.broadcast %b : tensor<4xf32> -> tensor<?x4xf32, #edge>
    %mb = arith.mulf %m, %bb : tensor<?x4xf32, #edge>
    %s = mp.reduce sum src %mb : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
    // CHECK: mp.yield
    mp.yield %s : tensor<?x4xf32, #node>
  }
  return %h : tensor<?x4xf32, #node>
}

// Rows may span several relations.
// CHECK-LABEL: func @relations
// CHECK-SAME: tensor<?x4xf32, #mp.rows<1, node, [0, 2]>>
func.func @relations(%x: tensor<?x4xf32, #mp.rows<1, node, [0, 2]>>) {
  return
}

// What gradients are made of.
// CHECK-LABEL: func @gradients
func.func @gradients(%m: tensor<?x4xf32, #edge>, %d: tensor<?x2x4xf32, #dst>) -> tensor<2x4xf32> {
  // CHECK: mp.reduce max dst %{{.*}} ties even : tensor
  %a = mp.reduce max dst %m ties even : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #dst>
  // CHECK: mp.reduce max dst %{{[a-z0-9]+}} : tensor
  %b = mp.reduce max dst %m ties first : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #dst>
  // CHECK: mp.reduce_axis min %{{.*}} axis 1 ties even : tensor
  %c = mp.reduce_axis min %m axis 1 ties even : tensor<?x4xf32, #edge> -> tensor<?xf32, #edge>
  // CHECK: mp.detach %{{.*}} : tensor
  %e = mp.detach %m : tensor<?x4xf32, #edge>
  // CHECK: mp.iota axis 0 : tensor<?xi64, #mp.rows<0, edge>>
  %i = mp.iota axis 0 : tensor<?xi64, #edge>
  // CHECK: mp.iota axis 0 : tensor<?xi32, #mp.rows<0, edge>>
  %j = mp.iota axis 0 : tensor<?xi32, #edge>
  // CHECK: mp.iota axis 1 : tensor<2x4xi64>
  %k = mp.iota axis 1 : tensor<2x4xi64>
  // CHECK: mp.pad_rows
  %p = mp.pad_rows %d : tensor<?x2x4xf32, #dst> -> tensor<?x2x4xf32, #src>
  // CHECK: mp.contract_rows {{.*}} -> tensor<4x4xf32>
  %w = mp.contract_rows %d, %d : tensor<?x2x4xf32, #dst>, tensor<?x2x4xf32, #dst> -> tensor<4x4xf32>
  // CHECK: mp.sum_rows {{.*}} -> tensor<2x4xf32>
  %s = mp.sum_rows %p : tensor<?x2x4xf32, #src> -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}

// CHECK-LABEL: func @rows_by_number
func.func @rows_by_number(%t: tensor<8x2x4xf32>, %i: tensor<?xi64, #dst>) -> tensor<8x2x4xf32> {
  // CHECK: %[[L:.*]] = mp.lookup %{{.*}} at %{{.*}} from_end {field = "t"} : tensor<8x2x4xf32>, tensor<?xi64, #mp.rows<0, dst>> -> tensor<?x2x4xf32, #mp.rows<0, dst>>
  %l = mp.lookup %t at %i from_end {field = "t"} : tensor<8x2x4xf32>, tensor<?xi64, #dst> -> tensor<?x2x4xf32, #dst>
  // CHECK: mp.sum_by %[[L]] at %{{.*}} : {{.*}} -> tensor<8x2x4xf32>
  %s = mp.sum_by %l at %i : tensor<?x2x4xf32, #dst>, tensor<?xi64, #dst> -> tensor<8x2x4xf32>
  return %s : tensor<8x2x4xf32>
}
