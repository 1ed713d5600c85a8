// RUN: gossamer-opt %s --mp-hoist-before-gather --remarks-filter=mp 2>&1 | FileCheck %s

// The user learns at which line work moved from edges to nodes.
// CHECK: [[@LINE+4]]:{{.*}} remark: [Passed] hoist-before-gather
// CHECK-SAME: computed once per node, not once per edge
func.func @remark(%x: tensor<?x4xf32, #mp.rows<0, node>>) -> tensor<?x4xf32, #mp.rows<0, edge>> {
  %m = mp.gather src %x : tensor<?x4xf32, #mp.rows<0, node>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  %e = math.exp %m : tensor<?x4xf32, #mp.rows<0, edge>>
  return %e : tensor<?x4xf32, #mp.rows<0, edge>>
}
