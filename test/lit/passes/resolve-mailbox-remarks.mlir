// RUN: gossamer-opt %s --mp-resolve-mailbox --remarks-filter=mp 2>&1 | FileCheck %s

// The user learns at which line a reduce function became a reduction.
// CHECK: [[@LINE+4]]:{{.*}} remark: [Passed] resolve-mailbox
// CHECK-SAME: reduces messages per node; no mailbox is stored
func.func @remark(%m: tensor<?x4xf32, #mp.rows<0, edge>>) -> tensor<?x4xf32, #mp.rows<0, node>> {
  %b = mp.mailbox %m : tensor<?x4xf32, #mp.rows<0, edge>> -> tensor<?x?x4xf32, #mp.rows<0, mailbox>>
  %s = mp.reduce_axis sum %b axis 1 : tensor<?x?x4xf32, #mp.rows<0, mailbox>> -> tensor<?x4xf32, #mp.rows<0, node>>
  return %s : tensor<?x4xf32, #mp.rows<0, node>>
}
