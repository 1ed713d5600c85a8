// RUN: gossamer-opt %s --mp-form-kernels --mp-verify-kernels --split-input-file | FileCheck %s

// A row by number is read inside the kernel.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @read_inside
// CHECK-SAME: (%[[W:[a-z0-9]+]]: tensor<8x4xf32>, %[[T:[a-z0-9]+]]: tensor
// CHECK: mp.kernel
// CHECK-SAME: %[[W]]
// CHECK: mp.lookup
// CHECK: mp.reduce
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @read_inside(%w: tensor<8x4xf32>, %t: tensor<?xi64, #edge>) -> tensor<?x4xf32, #node> {
  %r = mp.lookup %w at %t : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %r : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// Table and index that are computed are tables before the kernel that reads
// them: the program checks numbers in memory. Not even the same rows by the same
// end put both in one kernel.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @computed
// CHECK-DAG: %[[T:.*]] = mp.kernel over params
// CHECK-DAG: %[[I:.*]] = mp.kernel over #mp.rows<0, node> by dst {{.*}} -> tensor<?xi64, #mp.rows<0, edge>>
// CHECK: mp.kernel over #mp.rows<0, node> by dst
// CHECK-SAME: %[[T]]
// CHECK-SAME: %[[I]]
// CHECK: mp.lookup
func.func @computed(%w: tensor<8x4xf32>, %t: tensor<?xi64, #node>) -> tensor<?x4xf32, #edge> {
  %n = math.tanh %w : tensor<8x4xf32>
  %a = mp.gather src %t : tensor<?xi64, #node> -> tensor<?xi64, #edge>
  %b = mp.gather dst %t : tensor<?xi64, #node> -> tensor<?xi64, #edge>
  %i = arith.addi %a, %b : tensor<?xi64, #edge>
  %r = mp.lookup %n at %i : tensor<8x4xf32>, tensor<?xi64, #edge> -> tensor<?x4xf32, #edge>
  return %r : tensor<?x4xf32, #edge>
}

// -----

// A sum by number is added up by a kernel, of tables, too.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @sums
// CHECK: mp.kernel over #mp.rows<0, node> by dst
// CHECK-DAG: mp.sum_by {{.*}} -> tensor<8x4xf32>
// CHECK-DAG: mp.sum_by {{.*}} -> tensor<9x4xf32>
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @sums(%x: tensor<?x4xf32, #edge>, %t: tensor<?xi64, #edge>, %y: tensor<?x4xf32, #node>, %l: tensor<?xi64, #node>) -> (tensor<8x4xf32>, tensor<9x4xf32>) {
  %r = mp.sum_by %x at %t : tensor<?x4xf32, #edge>, tensor<?xi64, #edge> -> tensor<8x4xf32>
  %s = mp.sum_by %y at %l : tensor<?x4xf32, #node>, tensor<?xi64, #node> -> tensor<9x4xf32>
  return %r, %s : tensor<8x4xf32>, tensor<9x4xf32>
}
