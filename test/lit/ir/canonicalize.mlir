// RUN: gossamer-opt %s --canonicalize --split-input-file | FileCheck %s

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// Ops that change nothing go away.
// CHECK-LABEL: func @nothing_changes
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @nothing_changes(%x: tensor<?x4x2xf32, #node>) -> tensor<?x4x2xf32, #node> {
  %a = mp.reshape %x : tensor<?x4x2xf32, #node> -> tensor<?x4x2xf32, #node>
  %b = mp.broadcast %a : tensor<?x4x2xf32, #node> -> tensor<?x4x2xf32, #node>
  %c = mp.slice %b axis 1 from 0 by 1 : tensor<?x4x2xf32, #node> -> tensor<?x4x2xf32, #node>
  %d = mp.transpose %c [0, 1, 2] : tensor<?x4x2xf32, #node> -> tensor<?x4x2xf32, #node>
  %e = mp.concat %d axis 2 : tensor<?x4x2xf32, #node> -> tensor<?x4x2xf32, #node>
  // CHECK-NEXT: return %[[X]]
  return %e : tensor<?x4x2xf32, #node>
}

// -----

// A reshape of a reshape is one; back to where it came from, none.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @reshapes
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @reshapes(%x: tensor<?x8xf32, #node>) -> (tensor<?x8xf32, #node>, tensor<?x2x4xf32, #node>) {
  %a = mp.reshape %x : tensor<?x8xf32, #node> -> tensor<?x4x2xf32, #node>
  %b = mp.reshape %a : tensor<?x4x2xf32, #node> -> tensor<?x8xf32, #node>
  // CHECK: %[[C:.*]] = mp.reshape %[[X]]
  %c = mp.reshape %a : tensor<?x4x2xf32, #node> -> tensor<?x2x4xf32, #node>
  // CHECK: return %[[X]], %[[C]]
  return %b, %c : tensor<?x8xf32, #node>, tensor<?x2x4xf32, #node>
}

// -----

// CHECK-LABEL: func @transposes
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @transposes(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %a = mp.transpose %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  // CHECK: mp.transpose %[[X]] [1, 2, 0]
  %b = mp.transpose %a [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  return %b : tensor<3x4x2xf32>
}

// -----

// What is cut out of one part of a concat never needed the others; what crosses
// parts does.
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @slice_of_concat
// CHECK-SAME: (%[[A:[a-z0-9]+]]: tensor<?x4xf32{{.*}}, %[[B:[a-z0-9]+]]: tensor
func.func @slice_of_concat(%a: tensor<?x4xf32, #edge>, %b: tensor<?x4xf32, #edge>)
    -> (tensor<?x2xf32, #edge>, tensor<?x4xf32, #edge>) {
  // CHECK: %[[C:.*]] = mp.concat
  %c = mp.concat %a, %b axis 1 : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<?x8xf32, #edge>
  // CHECK: mp.slice %[[B]] axis 1 from 1 by 2
  %s = mp.slice %c axis 1 from 5 by 2 : tensor<?x8xf32, #edge> -> tensor<?x2xf32, #edge>
  // CHECK: mp.slice %[[C]] axis 1 from 2 by 1
  %t = mp.slice %c axis 1 from 2 by 1 : tensor<?x8xf32, #edge> -> tensor<?x4xf32, #edge>
  return %s, %t : tensor<?x2xf32, #edge>, tensor<?x4xf32, #edge>
}

// -----

// Copies of a constant are constants.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @copies_of_a_fill
func.func @copies_of_a_fill() -> tensor<?x2x4xf32, #edge> {
  // CHECK-NEXT: %[[F:.*]] = mp.fill 2.000000e+00 : f32 : tensor<?x2x4xf32, #mp.rows<0, edge>>
  // CHECK-NEXT: return %[[F]]
  %f = mp.fill 2.0 : f32 : tensor<?x1xf32, #node>
  %g = mp.gather src %f : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %b = mp.broadcast %g : tensor<?x1xf32, #edge> -> tensor<?x8xf32, #edge>
  %r = mp.reshape %b : tensor<?x8xf32, #edge> -> tensor<?x2x4xf32, #edge>
  return %r : tensor<?x2x4xf32, #edge>
}

// -----

// Nodes without edges keep the last value they are given, and a reduction gives
// them 0 already.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @isolated_nodes
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @isolated_nodes(%x: tensor<?x4xf32, #node>, %m: tensor<?x4xf32, #edge>)
    -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK-NEXT: %[[A:.*]] = mp.fill_isolated dst %[[X]], 2.000000e+00
  %f = mp.fill_isolated dst %x, 1.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  %a = mp.fill_isolated dst %f, 2.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  // CHECK-NEXT: %[[S:.*]] = mp.reduce sum dst
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %b = mp.fill_isolated dst %s, 0.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  // Other ends are other nodes, and -0 is another number.
  // CHECK-NEXT: %[[C:.*]] = mp.fill_isolated src %[[S]]
  %c = mp.fill_isolated src %s, 0.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  // CHECK-NEXT: %[[D:.*]] = mp.fill_isolated dst %[[S]], -0.0
  %d = mp.fill_isolated dst %s, -0.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  // CHECK-NEXT: return %[[A]], %[[S]], %[[C]], %[[D]]
  return %a, %b, %c, %d : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// No edge reads what isolated nodes are filled with.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @gather_of_filled
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @gather_of_filled(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #edge> {
  %f = mp.fill_isolated dst %x, 7.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  // CHECK-NEXT: mp.gather dst %[[X]]
  %e = mp.gather dst %f : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  return %e : tensor<?x4xf32, #edge>
}

// -----

// A node without edges of one end can have edges of the other.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @gather_at_other_end
func.func @gather_at_other_end(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #edge> {
  // CHECK-NEXT: mp.fill_isolated dst
  %f = mp.fill_isolated dst %x, 7.0 : f32 : tensor<?x4xf32, #node> -> tensor<?x4xf32, #node>
  %e = mp.gather src %f : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  return %e : tensor<?x4xf32, #edge>
}

// -----

// First rows of first rows are one prefix; back where they came from, none:
// of two row sets that hold each other's first rows, neither is smaller.
#here = #mp.rows<0, dst>
#there = #mp.rows<1, dst>
#other = #mp.rows<2, dst>
// CHECK-LABEL: func @prefixes
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @prefixes(%x: tensor<?x4xf32, #here>)
    -> (tensor<?x4xf32, #here>, tensor<?x4xf32, #other>) attributes {mp.graphs = 3 : i64} {
  %a = mp.prefix %x : tensor<?x4xf32, #here> -> tensor<?x4xf32, #there>
  %b = mp.prefix %a : tensor<?x4xf32, #there> -> tensor<?x4xf32, #here>
  // CHECK-NEXT: %[[C:.*]] = mp.prefix %[[X]] : {{.*}}<0, dst>> -> {{.*}}<2, dst>>
  %c = mp.prefix %a : tensor<?x4xf32, #there> -> tensor<?x4xf32, #other>
  // CHECK-NEXT: return %[[X]], %[[C]]
  return %b, %c : tensor<?x4xf32, #here>, tensor<?x4xf32, #other>
}

// -----

// Zeros behind rows, and without them again: the rows.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
// CHECK-LABEL: func @prefix_of_padded
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
// CHECK-NEXT: return %[[X]]
func.func @prefix_of_padded(%x: tensor<?x4xf32, #dst>) -> tensor<?x4xf32, #dst> {
  %p = mp.pad_rows %x : tensor<?x4xf32, #dst> -> tensor<?x4xf32, #src>
  %r = mp.prefix %p : tensor<?x4xf32, #src> -> tensor<?x4xf32, #dst>
  return %r : tensor<?x4xf32, #dst>
}
