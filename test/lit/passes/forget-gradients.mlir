// RUN: gossamer-opt %s --mp-forget-gradients | FileCheck %s

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// CHECK-LABEL: func @hints
// CHECK-SAME: %[[X:.*]]: tensor
// CHECK-NEXT: mp.reduce max dst %[[X]] :
// CHECK-NEXT: mp.reduce_axis min %[[X]] axis 1 :
func.func @hints(%x: tensor<?x4xf32, #edge>) -> (tensor<?x4xf32, #node>, tensor<?xf32, #edge>) {
  %d = mp.detach %x : tensor<?x4xf32, #edge>
  %m = mp.reduce max dst %d ties even : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %a = mp.reduce_axis min %d axis 1 ties even : tensor<?x4xf32, #edge> -> tensor<?xf32, #edge>
  return %m, %a : tensor<?x4xf32, #node>, tensor<?xf32, #edge>
}
