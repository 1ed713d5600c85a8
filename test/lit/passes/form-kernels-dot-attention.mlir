// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s

// Scaled dot product attention on a bipartite graph: the dot product needs both
// ends, so it is computed per edge, and in one kernel with the softmax.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>

// CHECK-LABEL: func @dot_attention
// CHECK-NEXT: mp.kernel over #mp.rows<0, dst> by dst
// CHECK: %[[D:.*]] = mp.reduce_axis sum {{.*}} axis 2
// CHECK: mp.reduce max dst
// CHECK: mp.reduce sum dst
// CHECK: mp.reduce sum dst
// CHECK: arith.divf {{.*}} #mp.rows<0, dst>>
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @dot_attention(%k: tensor<?x2x8xf32, #src>, %q: tensor<?x2x8xf32, #dst>, %v: tensor<?x2x8xf32, #src>) -> tensor<?x2x8xf32, #dst> {
  %ku = mp.gather src %k : tensor<?x2x8xf32, #src> -> tensor<?x2x8xf32, #edge>
  %qv = mp.gather dst %q : tensor<?x2x8xf32, #dst> -> tensor<?x2x8xf32, #edge>
  %p = arith.mulf %ku, %qv : tensor<?x2x8xf32, #edge>
  %d = mp.reduce_axis sum %p axis 2 : tensor<?x2x8xf32, #edge> -> tensor<?x2xf32, #edge>
  %c = mp.fill 0.353553 : f32 : tensor<?x2xf32, #edge>
  %dc = arith.mulf %d, %c : tensor<?x2xf32, #edge>
  %a = mp.softmax dst %dc : tensor<?x2xf32, #edge>
  %a1 = mp.reshape %a : tensor<?x2xf32, #edge> -> tensor<?x2x1xf32, #edge>
  %ab = mp.broadcast %a1 : tensor<?x2x1xf32, #edge> -> tensor<?x2x8xf32, #edge>
  %vu = mp.gather src %v : tensor<?x2x8xf32, #src> -> tensor<?x2x8xf32, #edge>
  %m = arith.mulf %ab, %vu : tensor<?x2x8xf32, #edge>
  %h = mp.reduce sum dst %m : tensor<?x2x8xf32, #edge> -> tensor<?x2x8xf32, #dst>
  return %h : tensor<?x2x8xf32, #dst>
}
