// RUN: gossamer-opt %s --mp-form-kernels --remarks-filter=mp 2>&1 | FileCheck %s

// The user learns what one kernel computes, and which rows of edges it does not
// store: here 4 numbers of 4 bytes for each edge.
// CHECK: [[@LINE+9]]:{{.*}} remark: [Passed] form-kernels
// CHECK-SAME: Ops=2
// CHECK-SAME: fused into one kernel
// CHECK-SAME: Writes=1
// CHECK: [[@LINE+4]]:{{.*}} remark: [Passed] form-kernels
// CHECK-SAME: BytesPerEdge=16
// CHECK-SAME: not stored: lives inside a kernel
func.func @remark(%x: tensor<?x4xf32, #mp.rows<0, node>>) -> tensor<?x4xf32, #mp.rows<0, node>> {
  %m = mp.gather src %x : tensor<?x4xf32, #mp.rows<0, node>> -> tensor<?x4xf32, #mp.rows<0, edge>>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #mp.rows<0, edge>> -> tensor<?x4xf32, #mp.rows<0, node>>
  return %s : tensor<?x4xf32, #mp.rows<0, node>>
}
