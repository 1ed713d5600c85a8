// RUN: gossamer-opt %s --mp-group-terms --split-input-file | FileCheck %s

// Two rows of the source become one.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @difference
// CHECK-SAME: (%[[T:[a-z0-9]+]]: tensor{{.*}}, %[[P:[a-z0-9]+]]: tensor{{.*}})
func.func @difference(%t: tensor<?x8xf32, #node>, %p: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #edge> {
  // CHECK-DAG: %[[TV:.*]] = mp.gather dst %[[T]]
  // CHECK-DAG: %[[TU:.*]] = mp.gather src %[[T]]
  // CHECK-DAG: %[[PU:.*]] = mp.gather src %[[P]]
  // CHECK: %[[Q:.*]] = arith.subf %[[PU]], %[[TU]]
  // CHECK: %[[M:.*]] = arith.addf %[[TV]], %[[Q]]
  // CHECK: return %[[M]]
  %tv = mp.gather dst %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %tu = mp.gather src %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %pu = mp.gather src %p : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %d = arith.subf %tv, %tu : tensor<?x8xf32, #edge>
  %m = arith.addf %d, %pu : tensor<?x8xf32, #edge>
  return %m : tensor<?x8xf32, #edge>
}

// -----

// Signs are kept: -(v - u) - w is (u - w) - v, and a sum of negatives is negated.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @signs
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor{{.*}}, %[[Y:[a-z0-9]+]]: tensor{{.*}})
func.func @signs(%x: tensor<?x8xf32, #node>, %y: tensor<?x8xf32, #node>) -> (tensor<?x8xf32, #edge>, tensor<?x8xf32, #edge>) {
  // CHECK-DAG: %[[V:.*]] = mp.gather dst %[[X]]
  // CHECK-DAG: %[[U:.*]] = mp.gather src %[[X]]
  // CHECK-DAG: %[[W:.*]] = mp.gather src %[[Y]]
  %v = mp.gather dst %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %u = mp.gather src %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %w = mp.gather src %y : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  // CHECK: %[[G:.*]] = arith.subf %[[U]], %[[W]]
  // CHECK: %[[S:.*]] = arith.subf %[[G]], %[[V]]
  %d = arith.subf %v, %u : tensor<?x8xf32, #edge>
  %n = arith.negf %d : tensor<?x8xf32, #edge>
  %s = arith.subf %n, %w : tensor<?x8xf32, #edge>
  // CHECK: %[[V2:.*]] = mp.gather dst %[[Y]]
  %v2 = mp.gather dst %y : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %u2 = mp.gather src %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %w2 = mp.gather src %y : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  // CHECK: %[[G2:.*]] = arith.addf
  // CHECK: %[[S2:.*]] = arith.addf %[[G2]], %[[V2]]
  // CHECK: %[[N2:.*]] = arith.negf %[[S2]]
  // CHECK: return %[[S]], %[[N2]]
  %a = arith.addf %u2, %v2 : tensor<?x8xf32, #edge>
  %b = arith.addf %a, %w2 : tensor<?x8xf32, #edge>
  %c = arith.negf %b : tensor<?x8xf32, #edge>
  return %s, %c : tensor<?x8xf32, #edge>, tensor<?x8xf32, #edge>
}

// -----

// One row of each end: nothing to add up first.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @one_of_each
func.func @one_of_each(%x: tensor<?x8xf32, #node>, %e: tensor<?x8xf32, #edge>) -> tensor<?x8xf32, #edge> {
  // CHECK: %[[V:.*]] = mp.gather dst
  // CHECK-NEXT: %[[U:.*]] = mp.gather src
  // CHECK-NEXT: %[[A:.*]] = arith.addf %[[V]], %[[U]]
  // CHECK-NEXT: %[[B:.*]] = arith.addf %[[A]],
  // CHECK-NEXT: return %[[B]]
  %v = mp.gather dst %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %u = mp.gather src %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %a = arith.addf %v, %u : tensor<?x8xf32, #edge>
  %b = arith.addf %a, %e : tensor<?x8xf32, #edge>
  return %b : tensor<?x8xf32, #edge>
}

// -----

// Rows that are read anyway are not saved by adding them up.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @read_anyway
func.func @read_anyway(%x: tensor<?x8xf32, #node>, %y: tensor<?x8xf32, #node>) -> (tensor<?x8xf32, #edge>, tensor<?x8xf32, #edge>) {
  %u = mp.gather src %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %v = mp.gather dst %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %w = mp.gather src %y : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  // CHECK: %[[A:.*]] = arith.addf
  // CHECK-NEXT: arith.addf %[[A]],
  // CHECK-NEXT: arith.mulf
  %a = arith.addf %u, %v : tensor<?x8xf32, #edge>
  %b = arith.addf %a, %w : tensor<?x8xf32, #edge>
  %m = arith.mulf %u, %b : tensor<?x8xf32, #edge>
  return %b, %m : tensor<?x8xf32, #edge>, tensor<?x8xf32, #edge>
}

// -----

// Torch has the sum in bf16: so may its parts be in memory.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @stored_as
func.func @stored_as(%t: tensor<?x8xf32, #node>, %p: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #edge> {
  // CHECK: %[[Q:.*]] = arith.addf {{.*}} {mp.stored_as = bf16}
  // CHECK: %[[S:.*]] = arith.addf %{{.*}}, %[[Q]] {mp.stored_as = bf16}
  // CHECK: arith.negf %[[S]] {mp.stored_as = bf16}
  %tv = mp.gather dst %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %tu = mp.gather src %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %pu = mp.gather src %p : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %d = arith.addf %tv, %tu {mp.stored_as = bf16} : tensor<?x8xf32, #edge>
  %s = arith.addf %d, %pu {mp.stored_as = bf16} : tensor<?x8xf32, #edge>
  %m = arith.negf %s {mp.stored_as = bf16} : tensor<?x8xf32, #edge>
  return %m : tensor<?x8xf32, #edge>
}
