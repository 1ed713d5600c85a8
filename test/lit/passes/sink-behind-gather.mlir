// RUN: gossamer-opt %s --mp-sink-behind-gather --split-input-file | FileCheck %s

// x scaled by c would be a second table as large as x.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @scaled_rows
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x64xf32{{.*}}, %[[C:[a-z0-9]+]]: tensor
func.func @scaled_rows(%x: tensor<?x64xf32, #node>, %c: tensor<?x1xf32, #node>) -> tensor<?x64xf32, #node> {
  %cb = mp.broadcast %c : tensor<?x1xf32, #node> -> tensor<?x64xf32, #node>
  %y = arith.mulf %x, %cb : tensor<?x64xf32, #node>
  // CHECK-DAG: %[[XU:.*]] = mp.gather src %[[X]]
  // CHECK-DAG: %[[CU:.*]] = mp.gather src %[[C]]
  // CHECK: %[[CB:.*]] = mp.broadcast %[[CU]]
  // CHECK: %[[Y:.*]] = arith.mulf %[[XU]], %[[CB]] : tensor<?x64xf32, #mp.rows<0, edge>>
  %m = mp.gather src %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  // CHECK: mp.reduce sum dst %[[Y]]
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// Copies of a table are read in place, however wide the table is.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @part_of_a_table
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @part_of_a_table(%x: tensor<?x64xf32, #node>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: %[[M:.*]] = mp.gather src %[[X]]
  // CHECK-NEXT: mp.slice %[[M]]
  %y = mp.slice %x axis 1 from 8 by 1 : tensor<?x64xf32, #node> -> tensor<?x4xf32, #node>
  %m = mp.gather src %y : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// exp is not worth repeating for each edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @costly_rows
func.func @costly_rows(%x: tensor<?x64xf32, #node>) -> tensor<?x64xf32, #node> {
  // CHECK-NEXT: %[[Y:.*]] = math.exp
  // CHECK-NEXT: mp.gather src %[[Y]]
  %y = math.exp %x : tensor<?x64xf32, #node>
  %m = mp.gather src %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// Two tables to gather instead of one: storing their sum reads half per edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @two_tables
func.func @two_tables(%x: tensor<?x64xf32, #node>, %z: tensor<?x64xf32, #node>) -> tensor<?x64xf32, #node> {
  // CHECK-NEXT: %[[Y:.*]] = arith.addf
  // CHECK-NEXT: mp.gather src %[[Y]]
  %y = arith.addf %x, %z : tensor<?x64xf32, #node>
  %m = mp.gather src %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// At the end by which the edges are reduced, a row is computed once and not
// stored.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @own_row
func.func @own_row(%x: tensor<?x64xf32, #node>, %w: tensor<?x64xf32, #edge>) -> tensor<?x64xf32, #node> {
  // CHECK-NEXT: %[[Y:.*]] = arith.addf
  // CHECK-NEXT: mp.gather dst %[[Y]]
  %y = arith.addf %x, %x : tensor<?x64xf32, #node>
  %m = mp.gather dst %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %p = arith.mulf %m, %w : tensor<?x64xf32, #edge>
  %s = mp.reduce max dst %p : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// Returned, so it is stored anyway.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @stored_anyway
func.func @stored_anyway(%x: tensor<?x64xf32, #node>) -> (tensor<?x64xf32, #node>, tensor<?x64xf32, #node>) {
  // CHECK-NEXT: %[[Y:.*]] = arith.negf
  // CHECK-NEXT: mp.gather src %[[Y]]
  %y = arith.negf %x : tensor<?x64xf32, #node>
  %m = mp.gather src %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s, %y : tensor<?x64xf32, #node>, tensor<?x64xf32, #node>
}

// -----

// No edge reads what isolated nodes are filled with: a gradient that is masked
// and scaled is read where it is.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @masked_and_scaled
// CHECK-SAME: (%[[G:[a-z0-9]+]]: tensor<?x64xf32{{.*}}, %[[C:[a-z0-9]+]]: tensor
func.func @masked_and_scaled(%g: tensor<?x64xf32, #node>, %c: tensor<?x1xf32, #node>) -> tensor<?x64xf32, #node> {
  // CHECK-NOT: mp.fill_isolated
  // CHECK: mp.gather dst %[[G]]
  // CHECK: mp.gather dst %[[C]]
  // CHECK: arith.mulf {{.*}}edge
  %f = mp.fill_isolated dst %g, 0.0 : f32 : tensor<?x64xf32, #node> -> tensor<?x64xf32, #node>
  %cb = mp.broadcast %c : tensor<?x1xf32, #node> -> tensor<?x64xf32, #node>
  %y = arith.mulf %f, %cb : tensor<?x64xf32, #node>
  %m = mp.gather dst %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum src %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// Edges of the other end do read it.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @filled_for_the_other_end
func.func @filled_for_the_other_end(%g: tensor<?x64xf32, #node>, %c: tensor<?x1xf32, #node>) -> tensor<?x64xf32, #node> {
  // CHECK: mp.fill_isolated src
  // CHECK: arith.mulf {{.*}}node
  // CHECK: mp.gather dst
  %f = mp.fill_isolated src %g, 0.0 : f32 : tensor<?x64xf32, #node> -> tensor<?x64xf32, #node>
  %cb = mp.broadcast %c : tensor<?x1xf32, #node> -> tensor<?x64xf32, #node>
  %y = arith.mulf %f, %cb : tensor<?x64xf32, #node>
  %m = mp.gather dst %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum src %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// The messages are gathered anyway, so which of them are NaN is no table.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @flags_beside_messages
func.func @flags_beside_messages(%x: tensor<?x8xf32, #node>, %w: tensor<8x64xf32>, %v: tensor<?x64xf32, #edge>) -> tensor<?x64xf32, #node> {
  // CHECK-NEXT: %[[Y:.*]] = mp.linear
  // CHECK-NEXT: %[[M:.*]] = mp.gather src %[[Y]]
  // CHECK-NEXT: %[[U:.*]] = mp.gather src %[[Y]]
  // CHECK-NEXT: %[[F:.*]] = arith.cmpf uno, %[[U]], %[[U]] : tensor<?x64xf32, #mp.rows<0, edge>>
  // CHECK-NEXT: arith.select %[[F]], %{{.*}}, %[[M]]
  // CHECK-NOT: mp.gather
  %y = mp.linear %x, %w in_kernel : tensor<?x8xf32, #node>, tensor<8x64xf32> -> tensor<?x64xf32, #node>
  %n = arith.cmpf uno, %y, %y : tensor<?x64xf32, #node>
  %m = mp.gather src %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %f = mp.gather src %n : tensor<?x64xi1, #node> -> tensor<?x64xi1, #edge>
  %e = arith.select %f, %v, %m : tensor<?x64xi1, #edge>, tensor<?x64xf32, #edge>
  %s = mp.reduce max dst %e : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// Another reduction gathers the messages: here the flags alone are read.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @flags_without_messages
func.func @flags_without_messages(%x: tensor<?x8xf32, #node>, %w: tensor<8x64xf32>, %v: tensor<?x64xf32, #edge>) -> (tensor<?x64xf32, #node>, tensor<?x64xf32, #node>) {
  // CHECK: arith.cmpf uno, {{.*}} : tensor<?x64xf32, #mp.rows<0, node>>
  // CHECK: mp.gather src {{.*}} : tensor<?x64xi1,
  %y = mp.linear %x, %w in_kernel : tensor<?x8xf32, #node>, tensor<8x64xf32> -> tensor<?x64xf32, #node>
  %n = arith.cmpf uno, %y, %y : tensor<?x64xf32, #node>
  %m = mp.gather src %y : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %t = mp.reduce max dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  %z = mp.fill 0.0 : f32 : tensor<?x64xf32, #edge>
  %f = mp.gather src %n : tensor<?x64xi1, #node> -> tensor<?x64xi1, #edge>
  %e = arith.select %f, %v, %z : tensor<?x64xi1, #edge>, tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %e : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s, %t : tensor<?x64xf32, #node>, tensor<?x64xf32, #node>
}
