// RUN: gossamer-opt %s --mp-split-sum --split-input-file | FileCheck %s

// The dot product of both ends with one vector is a dot product for each end.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @dot_of_both_ends
// CHECK-SAME: (%[[Z:[a-z0-9]+]]: tensor{{.*}}, %[[A:[a-z0-9]+]]: tensor<2x8xf32>)
func.func @dot_of_both_ends(%z: tensor<?x2x4xf32, #node>, %a: tensor<2x8xf32>) -> tensor<?x2xf32, #edge> {
  // CHECK-DAG: %[[U:.*]] = mp.gather src %[[Z]]
  // CHECK-DAG: %[[V:.*]] = mp.gather dst %[[Z]]
  %u = mp.gather src %z : tensor<?x2x4xf32, #node> -> tensor<?x2x4xf32, #edge>
  %v = mp.gather dst %z : tensor<?x2x4xf32, #node> -> tensor<?x2x4xf32, #edge>
  // CHECK-NOT: mp.concat
  %c = mp.concat %u, %v axis 2 : tensor<?x2x4xf32, #edge>, tensor<?x2x4xf32, #edge> -> tensor<?x2x8xf32, #edge>
  // CHECK: %[[A0:.*]] = mp.slice %[[A]] axis 1 from 0 by 1
  // CHECK: %[[B0:.*]] = mp.broadcast %[[A0]] : tensor<2x4xf32> -> tensor<?x2x4xf32, #mp.rows<0, edge>>
  // CHECK: %[[P0:.*]] = arith.mulf %[[U]], %[[B0]]
  // CHECK: %[[S0:.*]] = mp.reduce_axis sum %[[P0]] axis 2
  // CHECK: %[[A1:.*]] = mp.slice %[[A]] axis 1 from 4 by 1
  // CHECK: %[[B1:.*]] = mp.broadcast %[[A1]]
  // CHECK: %[[P1:.*]] = arith.mulf %[[V]], %[[B1]]
  // CHECK: %[[S1:.*]] = mp.reduce_axis sum %[[P1]] axis 2
  %b = mp.broadcast %a : tensor<2x8xf32> -> tensor<?x2x8xf32, #edge>
  %p = arith.mulf %c, %b : tensor<?x2x8xf32, #edge>
  // CHECK: %[[S:.*]] = arith.addf %[[S0]], %[[S1]]
  // CHECK: return %[[S]]
  %s = mp.reduce_axis sum %p axis 2 : tensor<?x2x8xf32, #edge> -> tensor<?x2xf32, #edge>
  return %s : tensor<?x2xf32, #edge>
}

// -----

// Values that are the same along the axis, and constants, get narrower; a part
// that is known on edges only keeps its sum there.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @with_edges
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor{{.*}}, %[[E:[a-z0-9]+]]: tensor{{.*}}, %[[C:[a-z0-9]+]]: tensor<1xf32>)
func.func @with_edges(%x: tensor<?x4xf32, #node>, %e: tensor<?x3xf32, #edge>, %c: tensor<1xf32>) -> tensor<?xf32, #edge> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %b = mp.broadcast %c : tensor<1xf32> -> tensor<?x7xf32, #edge>
  %k = mp.fill 2.0 : f32 : tensor<?x7xf32, #edge>
  // CHECK: mp.broadcast %[[C]] : tensor<1xf32> -> tensor<?x4xf32
  // CHECK: mp.fill 2.{{.*}} : tensor<?x4xf32
  // CHECK: mp.reduce_axis sum {{.*}} : tensor<?x4xf32
  // CHECK: arith.mulf %[[E]],
  // CHECK: mp.reduce_axis sum {{.*}} : tensor<?x3xf32
  %m = mp.concat %u, %e axis 1 : tensor<?x4xf32, #edge>, tensor<?x3xf32, #edge> -> tensor<?x7xf32, #edge>
  %p = arith.mulf %m, %b : tensor<?x7xf32, #edge>
  %q = arith.mulf %p, %k : tensor<?x7xf32, #edge>
  %s = mp.reduce_axis sum %q axis 1 : tensor<?x7xf32, #edge> -> tensor<?xf32, #edge>
  return %s : tensor<?xf32, #edge>
}

// -----

// Nothing to gain: every part reads both ends.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @parts_of_both_ends
func.func @parts_of_both_ends(%x: tensor<?x4xf32, #node>, %y: tensor<?x8xf32, #node>) -> tensor<?xf32, #edge> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %v = mp.gather dst %y : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  // CHECK: mp.concat
  %c = mp.concat %u, %u axis 1 : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<?x8xf32, #edge>
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: mp.reduce_axis sum
  // CHECK-NEXT: return
  %p = arith.mulf %c, %v : tensor<?x8xf32, #edge>
  %s = mp.reduce_axis sum %p axis 1 : tensor<?x8xf32, #edge> -> tensor<?xf32, #edge>
  return %s : tensor<?xf32, #edge>
}

// -----

// A maximum is no sum of its parts; a concat along another axis is no part.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @other_kinds
func.func @other_kinds(%x: tensor<?x2x4xf32, #node>) -> (tensor<?x2xf32, #edge>, tensor<?x8xf32, #edge>) {
  %u = mp.gather src %x : tensor<?x2x4xf32, #node> -> tensor<?x2x4xf32, #edge>
  %v = mp.gather dst %x : tensor<?x2x4xf32, #node> -> tensor<?x2x4xf32, #edge>
  // CHECK: mp.concat
  // CHECK-NEXT: mp.reduce_axis max
  // CHECK-NEXT: mp.reduce_axis sum
  // CHECK-NEXT: return
  %c = mp.concat %u, %v axis 2 : tensor<?x2x4xf32, #edge>, tensor<?x2x4xf32, #edge> -> tensor<?x2x8xf32, #edge>
  %m = mp.reduce_axis max %c axis 2 : tensor<?x2x8xf32, #edge> -> tensor<?x2xf32, #edge>
  %s = mp.reduce_axis sum %c axis 1 : tensor<?x2x8xf32, #edge> -> tensor<?x8xf32, #edge>
  return %m, %s : tensor<?x2xf32, #edge>, tensor<?x8xf32, #edge>
}

// -----

// Torch has the sum in bf16: so may its parts be in memory.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @stored_as
func.func @stored_as(%z: tensor<?x2x4xf32, #node>) -> tensor<?x2xf32, #edge> {
  // CHECK: mp.reduce_axis sum {{.*}} axis 2 {mp.stored_as = bf16}
  // CHECK: mp.reduce_axis sum {{.*}} axis 2 {mp.stored_as = bf16}
  // CHECK: arith.addf {{.*}} {mp.stored_as = bf16}
  %u = mp.gather src %z : tensor<?x2x4xf32, #node> -> tensor<?x2x4xf32, #edge>
  %v = mp.gather dst %z : tensor<?x2x4xf32, #node> -> tensor<?x2x4xf32, #edge>
  %c = mp.concat %u, %v axis 2 : tensor<?x2x4xf32, #edge>, tensor<?x2x4xf32, #edge> -> tensor<?x2x8xf32, #edge>
  %s = mp.reduce_axis sum %c axis 2 {mp.stored_as = bf16} : tensor<?x2x8xf32, #edge> -> tensor<?x2xf32, #edge>
  return %s : tensor<?x2xf32, #edge>
}
