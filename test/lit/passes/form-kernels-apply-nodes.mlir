// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// apply_nodes: one kernel that reads no edge.
#node = #mp.rows<0, node>

// CHECK-LABEL: func @apply_nodes
// CHECK-NEXT: mp.kernel over #mp.rows<0, node> by dst
// CHECK-NOT: #mp.rows<0, edge>
// CHECK: return
func.func @apply_nodes(%x: tensor<?x4xf32, #node>, %b: tensor<4xf32>) -> tensor<?x8xf32, #node> {
  %bb = mp.broadcast %b : tensor<4xf32> -> tensor<?x4xf32, #node>
  %y = arith.addf %x, %bb : tensor<?x4xf32, #node>
  %t = math.tanh %y : tensor<?x4xf32, #node>
  %c = mp.concat %x, %t axis 1 : tensor<?x4xf32, #node>, tensor<?x4xf32, #node> -> tensor<?x8xf32, #node>
  return %c : tensor<?x8xf32, #node>
}
