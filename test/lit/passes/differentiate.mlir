// RUN: gossamer-opt %s --mp-differentiate="wrt=0 save=false" --canonicalize --split-input-file | FileCheck %s

// Gather and reduce are each other's adjoint; nothing is scattered.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @copy_and_sum
// CHECK-SAME: %{{.*}}: tensor{{.*}}, %[[G:.*]]: tensor
// CHECK-NEXT: %[[E:.*]] = mp.gather dst %[[G]]
// CHECK-NEXT: %[[N:.*]] = mp.reduce sum src %[[E]]
// CHECK-NEXT: return %[[N]]
func.func @copy_and_sum(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %h = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// -----

// The mean divides on nodes. A node without edges divides 0 by 0, but no edge
// reads that.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @mean
// CHECK-SAME: %[[G:[^:]*]]: tensor<?x4xf32, #mp.rows<0, dst>>)
// CHECK: mp.degree dst
// CHECK: %[[SHARE:.*]] = arith.divf %[[G]]
// CHECK: %[[E:.*]] = mp.gather dst %[[SHARE]]
// CHECK: mp.reduce sum src %[[E]] {{.*}} -> tensor<?x4xf32, #mp.rows<0, src>>
func.func @mean(%x: tensor<?x4xf32, #src>) -> tensor<?x4xf32, #dst> {
  %m = mp.gather src %x : tensor<?x4xf32, #src> -> tensor<?x4xf32, #edge>
  %h = mp.reduce mean dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #dst>
  return %h : tensor<?x4xf32, #dst>
}

// -----

// The first edge that attains the maximum gets the gradient.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @max
// CHECK: %[[ID:.*]] = mp.iota axis 0 : tensor<?xi32, #mp.rows<0, edge>>
// CHECK: %[[CANDIDATES:.*]] = arith.select {{.*}} : tensor<?x4xi1, #mp.rows<0, edge>>, tensor<?x4xi32, #mp.rows<0, edge>>
// CHECK: %[[FIRST:.*]] = mp.reduce min dst %[[CANDIDATES]]
// CHECK: %[[AT:.*]] = mp.gather dst %[[FIRST]]
// CHECK: arith.cmpi eq, {{.*}}, %[[AT]]
func.func @max(%x: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  %h = mp.reduce max dst %x : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// -----

// All edges that attain it share it.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @amax
// CHECK-NOT: mp.iota
// CHECK: %[[COUNT:.*]] = mp.reduce sum dst
// CHECK: %[[SHARE:.*]] = arith.divf %{{.*}}, %[[COUNT]]
// CHECK: mp.gather dst %[[SHARE]]
func.func @amax(%x: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #node> {
  %h = mp.reduce max dst %x ties even : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %h : tensor<?x4xf32, #node>
}

// -----

// a (g - sum(a g)).
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @softmax
// CHECK: %[[A:.*]] = mp.softmax dst
// CHECK: %[[AG:.*]] = arith.mulf %[[A]], %[[G:.*]] :
// CHECK: %[[S:.*]] = mp.reduce sum dst %[[AG]]
// CHECK: %[[SE:.*]] = mp.gather dst %[[S]]
// CHECK: %[[D:.*]] = arith.subf %[[G]], %[[SE]]
// CHECK: arith.mulf %[[A]], %[[D]]
func.func @softmax(%x: tensor<?x4xf32, #edge>) -> tensor<?x4xf32, #edge> {
  %a = mp.softmax dst %x : tensor<?x4xf32, #edge>
  return %a : tensor<?x4xf32, #edge>
}

// -----

// Isolated nodes get no gradient: what they show is a constant.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @fill_isolated
// CHECK-SAME: %[[G:[^:]*]]: tensor<?x4xf32, #mp.rows<0, node>>)
// CHECK: mp.fill_isolated dst %[[G]], 0.000000e+00
func.func @fill_isolated(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %f = mp.fill_isolated dst %x, 7.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  return %f : tensor<?x4xf32, #node>
}

// -----

// Which nodes are isolated is a matter of one graph: what another graph's
// nodes hand on is masked there only.
#here = #mp.rows<0, dst>
#there = #mp.rows<1, dst>
// CHECK-LABEL: func @isolated_in_another_graph
// CHECK-SAME: %[[G:[^:]*]]: tensor<?x4xf32, #mp.rows<1, dst>>)
// CHECK-NEXT: %[[M:.*]] = mp.fill_isolated dst %[[G]], 0.000000e+00 {{.*}}<1, dst>>
// CHECK-NEXT: %[[P:.*]] = mp.pad_rows %[[M]]
// CHECK-NEXT: return %[[P]]
func.func @isolated_in_another_graph(%x: tensor<?x4xf32, #here>)
    -> tensor<?x4xf32, #there> attributes {mp.graphs = 2 : i64} {
  %p = mp.prefix %x : tensor<?x4xf32, #here> -> tensor<?x4xf32, #there>
  %f = mp.fill_isolated dst %p, 0.0 : f32 : tensor<?x4xf32, #there> -> tensor<?x4xf32, #there>
  return %f : tensor<?x4xf32, #there>
}

// -----

#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
// CHECK-LABEL: func @prefix
// CHECK: mp.pad_rows {{.*}} : tensor<?x4xf32, #mp.rows<0, dst>> -> tensor<?x4xf32, #mp.rows<0, src>>
func.func @prefix(%x: tensor<?x4xf32, #src>) -> tensor<?x4xf32, #dst> {
  %p = mp.prefix %x : tensor<?x4xf32, #src> -> tensor<?x4xf32, #dst>
  return %p : tensor<?x4xf32, #dst>
}

// -----

// Nodes may be the edges of another relation: those that lead to the graphs of a batch.
#node = #mp.rows<0, node>
#member = #mp.rows<1, edge>
#graph = #mp.rows<1, dst>
// CHECK-LABEL: func @readout
// CHECK: %[[M:.*]] = mp.gather dst %{{.*}} -> tensor<?x4xf32, #mp.rows<1, edge>>
// CHECK: mp.pad_rows %[[M]] : tensor<?x4xf32, #mp.rows<1, edge>> -> tensor<?x4xf32, #mp.rows<0, node>>
func.func @readout(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #graph> attributes {mp.graphs = 2 : i64} {
  %m = mp.prefix %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #member>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #member> -> tensor<?x4xf32, #graph>
  return %s : tensor<?x4xf32, #graph>
}

// -----

// A parameter repeated for every edge: features first, then the edges of each
// node, then the nodes.
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @parameter
// CHECK: %[[F:.*]] = mp.reduce_axis sum %{{.*}} axis 1
// CHECK: %[[N:.*]] = mp.reduce sum dst %[[F]]
// CHECK: %[[S:.*]] = mp.sum_rows %[[N]]
// CHECK: return %[[S]]
func.func @parameter(%b: tensor<4xf32>, %x: tensor<?x2x4xf32, #edge>) -> tensor<?x2x4xf32, #edge> {
  %r = mp.broadcast %b : tensor<4xf32> -> tensor<?x2x4xf32, #edge>
  %y = arith.addf %x, %r : tensor<?x2x4xf32, #edge>
  return %y : tensor<?x2x4xf32, #edge>
}

// -----

// The weight's gradient is transposed input times gradient. That of the input
// is not computed: nobody asked for it.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @weight
// CHECK-SAME: %{{.*}}: tensor<4x8xf32>, %[[X:.*]]: tensor<{{.*}}>, %[[G:.*]]: tensor
// CHECK-NEXT: mp.contract_rows %[[X]], %[[G]]
// CHECK-NEXT: return
func.func @weight(%w: tensor<4x8xf32>, %x: tensor<?x4xf32, #node>) -> tensor<?x8xf32, #node> {
  %y = mp.linear %x, %w : tensor<?x4xf32, #node>, tensor<4x8xf32> -> tensor<?x8xf32, #node>
  return %y : tensor<?x8xf32, #node>
}

// -----

// Of a product with rows of both ends, the gradient goes to the nodes first.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @weight_at_both_ends
// CHECK-SAME: %{{.*}}: tensor<8x2xf32>, %[[X:.*]]: tensor<{{.*}}>, %[[G:.*]]: tensor
// CHECK: %[[GS:.*]] = mp.reduce sum src %[[G]]
// CHECK: %[[S:.*]] = mp.contract_rows %[[X]], %[[GS]]
// CHECK: %[[GD:.*]] = mp.reduce sum dst %[[G]]
// CHECK: %[[D:.*]] = mp.contract_rows %[[X]], %[[GD]]
// CHECK: mp.concat %[[S]], %[[D]] axis 0
func.func @weight_at_both_ends(%w: tensor<8x2xf32>, %x: tensor<?x4xf32, #node>) -> tensor<?x2xf32, #edge> {
  %s = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %d = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %c = mp.concat %s, %d axis 1 : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<?x8xf32, #edge>
  %y = mp.linear %c, %w : tensor<?x8xf32, #edge>, tensor<8x2xf32> -> tensor<?x2xf32, #edge>
  return %y : tensor<?x2xf32, #edge>
}

// -----

// A cut becomes zeros.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @every_other
// CHECK: mp.concat
// CHECK: mp.concat {{.*}} -> tensor<?x7xf32
func.func @every_other(%x: tensor<?x7xf32, #node>) -> tensor<?x3xf32, #node> {
  %y = mp.slice %x axis 1 from 1 by 2 : tensor<?x7xf32, #node> -> tensor<?x3xf32, #node>
  return %y : tensor<?x3xf32, #node>
}

// -----

// No gradient flows through detach, nor through a comparison.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @stopped
// CHECK-NEXT: %[[Z:.*]] = mp.fill 0.0
// CHECK-NEXT: return %[[Z]]
func.func @stopped(%x: tensor<?xf32, #node>) -> (tensor<?xf32, #node>, tensor<?xi1, #node>) {
  %d = mp.detach %x : tensor<?xf32, #node>
  %p = arith.cmpf ogt, %x, %d : tensor<?xf32, #node>
  return %d, %p : tensor<?xf32, #node>, tensor<?xi1, #node>
}

// -----

// Rows by number: their gradients are summed by number.
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @lookup
// CHECK-SAME: %{{.*}}: tensor<8x4xf32>, %[[T:.*]]: tensor<?xi64, #mp.rows<0, edge>>, %[[G:.*]]: tensor
// CHECK-NEXT: %[[S:.*]] = mp.sum_by %[[G]] at %[[T]] from_end
// CHECK-NEXT: return %[[S]]
func.func @lookup(%w: tensor<8x4xf32>, %t: tensor<?xi64, #edge>) -> tensor<?x4xf32, #edge> {
  %r = mp.lookup %w at %t from_end : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf32, #edge>
  return %r : tensor<?x4xf32, #edge>
}

// -----

#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @sum_by
// CHECK-SAME: %{{.*}}: tensor{{.*}}, %[[T:.*]]: tensor<?xi64, #mp.rows<0, edge>>, %[[G:.*]]: tensor
// CHECK-NEXT: %[[S:.*]] = mp.lookup %[[G]] at %[[T]]
// CHECK-NEXT: return %[[S]]
func.func @sum_by(%m: tensor<?x4xf32, #edge>, %t: tensor<?xi64, #edge>) -> tensor<8x4xf32> {
  %r = mp.sum_by %m at %t : tensor<?x4xf32, #edge>, tensor<?xi64, #edge> -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// A square root that was moved from edges to nodes: rows that no edge reads may
// hold 0, whose slope is infinite. Times a gradient of 0 that is no 0, so it is
// masked.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @moved_root
// CHECK: %[[S:.*]] = mp.reduce sum src
// CHECK: %[[D:.*]] = arith.divf
// CHECK: mp.fill_isolated src %[[D]]
func.func @moved_root(%x: tensor<?x1xf32, #node>) -> tensor<?x1xf32, #node> {
  %r = math.sqrt %x {mp.was_on_edges} : tensor<?x1xf32, #node>
  %m = mp.gather src %r : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  return %s : tensor<?x1xf32, #node>
}

// -----

// A square root that fill_isolated hides, under another name of its rows. Its
// gradient is masked under that name.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
// CHECK-LABEL: func @hidden_behind_another_name
// CHECK: %[[D:.*]] = arith.divf
// CHECK: %[[P:.*]] = mp.prefix %[[D]] : {{.*}}src>> -> {{.*}}dst>>
// CHECK: %[[F:.*]] = mp.fill_isolated dst %[[P]]
// CHECK: %[[R:.*]] = mp.pad_rows %[[F]]
// CHECK: mp.sum_rows %[[R]]
func.func @hidden_behind_another_name(%w: tensor<1xf32>) -> tensor<?x1xf32, #dst> {
  %b = mp.broadcast %w : tensor<1xf32> -> tensor<?x1xf32, #src>
  %r = math.sqrt %b : tensor<?x1xf32, #src>
  %d = mp.prefix %r : tensor<?x1xf32, #src> -> tensor<?x1xf32, #dst>
  %f = mp.fill_isolated dst %d, 0.0 : f32 : tensor<?x1xf32, #dst> -> tensor<?x1xf32, #dst>
  return %f : tensor<?x1xf32, #dst>
}

// -----

// A product that was moved from edges to nodes: the other factor may be
// infinite in rows that no edge reads, such as 1 / sqrt(degree). Parameters are
// the same in all rows.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @moved_products
// CHECK-SAME: %{{.*}}: tensor{{.*}}, %[[N:[a-z0-9]+]]: tensor<?x1xf32, {{.*}}>, %[[W:[a-z0-9]+]]: tensor<4xf32>
// CHECK-DAG: %[[P:.*]] = mp.broadcast %[[W]]
// CHECK-DAG: %[[G:.*]] = mp.reduce sum src
// CHECK: %[[A:.*]] = arith.mulf %[[G]], %[[P]]
// CHECK-NEXT: %[[F:.*]] = mp.fill_isolated src %[[N]]
// CHECK-NEXT: %[[B:.*]] = mp.broadcast %[[F]]
// CHECK-NEXT: %[[X:.*]] = arith.mulf %[[A]], %[[B]]
// CHECK-NEXT: return %[[X]]
func.func @moved_products(%x: tensor<?x4xf32, #node>, %n: tensor<?x1xf32, #node>, %w: tensor<4xf32>) -> tensor<?x4xf32, #node> {
  %b = mp.broadcast %n : tensor<?x1xf32, #node> -> tensor<?x4xf32, #node>
  %a = arith.mulf %x, %b {mp.was_on_edges} : tensor<?x4xf32, #node>
  %p = mp.broadcast %w : tensor<4xf32> -> tensor<?x4xf32, #node>
  %y = arith.mulf %a, %p {mp.was_on_edges} : tensor<?x4xf32, #node>
  %m = mp.gather src %y : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}
