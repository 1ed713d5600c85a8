// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// apply_edges: the rows of edges are what the user asked for, so a kernel writes
// them.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// CHECK-LABEL: func @apply_edges
// CHECK-NEXT: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.yield {{.*}} : tensor<?xi64, #mp.rows<0, edge>>, tensor<?x4xf32, #mp.rows<0, edge>>
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @apply_edges(%label: tensor<?xi64, #node>, %x: tensor<?x4xf32, #node>, %w: tensor<?x4xf32, #edge>)
    -> (tensor<?xi64, #edge>, tensor<?x4xf32, #edge>) {
  %lu = mp.gather src %label : tensor<?xi64, #node> -> tensor<?xi64, #edge>
  %lv = mp.gather dst %label : tensor<?xi64, #node> -> tensor<?xi64, #edge>
  %same = arith.cmpi eq, %lu, %lv : tensor<?xi64, #edge>
  %int = arith.extui %same : tensor<?xi1, #edge> to tensor<?xi64, #edge>
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = arith.mulf %xu, %w : tensor<?x4xf32, #edge>
  return %int, %m : tensor<?xi64, #edge>, tensor<?x4xf32, #edge>
}
