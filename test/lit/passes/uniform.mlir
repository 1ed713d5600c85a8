// RUN: gossamer-opt %s --split-input-file --mp-pipeline | FileCheck %s
// RUN: gossamer-opt %s --split-input-file --mp-pipeline='differentiate=backward wrt=1' | FileCheck %s --check-prefix=BACKWARD

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// Equal seed and stream are one draw, other streams are others. Numbers of edges
// depend on the edge: nothing moves them to its ends. The backward goes by source
// and draws the same numbers again.
// CHECK-LABEL: func.func @streams
// CHECK:       mp.kernel over #mp.rows<0, node> by dst
// CHECK-DAG:     mp.uniform %{{.*}} stream 0 : tensor<?x8xf32, #mp.rows<0, edge>>
// CHECK-DAG:     mp.uniform %{{.*}} stream 1 : tensor<?x8xf32, #mp.rows<0, edge>>
// CHECK-NOT:     mp.uniform
// CHECK:       return
// BACKWARD-LABEL: func.func @streams
// BACKWARD:    mp.kernel over #mp.rows<0, node> by src
// BACKWARD-DAG:  mp.uniform %{{.*}} stream 0 : tensor<?x8xf32, #mp.rows<0, edge>>
// BACKWARD-DAG:  mp.uniform %{{.*}} stream 1 : tensor<?x8xf32, #mp.rows<0, edge>>
// BACKWARD-NOT:  mp.uniform
// BACKWARD:    return
func.func @streams(%seed: tensor<i64>, %x: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #node> attributes {mp.graphs = 1 : i64} {
  %u = mp.uniform %seed stream 0 : tensor<?x8xf32, #edge>
  %again = mp.uniform %seed stream 0 : tensor<?x8xf32, #edge>
  %v = mp.uniform %seed stream 1 : tensor<?x8xf32, #edge>
  %m = mp.gather src %x : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %a = arith.mulf %m, %u : tensor<?x8xf32, #edge>
  %b = arith.mulf %a, %again : tensor<?x8xf32, #edge>
  %c = arith.mulf %b, %v : tensor<?x8xf32, #edge>
  %s = mp.reduce sum dst %c : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %s : tensor<?x8xf32, #node>
}
