// RUN: gossamer-opt %s --mp-form-kernels --mp-verify-kernels --split-input-file | FileCheck %s

// Sums over all rows are added up by the kernel that computes the rows: nothing
// but the sums is stored.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @added_up_inside
// CHECK: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by dst
// CHECK: %[[W:.*]] = mp.contract_rows
// CHECK: %[[B:.*]] = mp.sum_rows
// CHECK: mp.yield %[[B]], %[[W]]
// CHECK: return %[[K]]#1, %[[K]]#0
func.func @added_up_inside(%e: tensor<?x4xf32, #edge>, %x: tensor<?x4xf32, #node>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %t = math.tanh %e : tensor<?x4xf32, #edge>
  %w = mp.contract_rows %e, %t : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<4x4xf32>
  %s = mp.reduce sum dst %t : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %b = mp.sum_rows %s : tensor<?x4xf32, #node> -> tensor<4xf32>
  return %w, %b : tensor<4x4xf32>, tensor<4xf32>
}

// -----

// Which end the edges are visited by is left open: a kernel that is there anyway
// takes the total.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @joins_a_kernel_by_source
// CHECK: mp.kernel over #mp.rows<0, node> by src
// CHECK-DAG: mp.contract_rows
// CHECK-DAG: mp.reduce sum src
// CHECK-NOT: mp.kernel
// CHECK: return
func.func @joins_a_kernel_by_source(%e: tensor<?x4xf32, #edge>, %x: tensor<?x4xf32, #node>) -> (tensor<4x4xf32>, tensor<?x4xf32, #node>) {
  %t = math.tanh %e : tensor<?x4xf32, #edge>
  %w = mp.contract_rows %e, %t : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<4x4xf32>
  %s = mp.reduce sum src %t : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %w, %s : tensor<4x4xf32>, tensor<?x4xf32, #node>
}

// -----

// Tables that are there already, and products of rows of nodes, are left to a
// GEMM.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @of_tables
// CHECK: mp.contract_rows %arg0, %arg0
// CHECK: mp.sum_rows %arg1
// CHECK: %[[K:.*]] = mp.kernel
// CHECK-NOT: mp.contract_rows
// CHECK: mp.yield
// CHECK: mp.contract_rows %arg1, %[[K]]
func.func @of_tables(%e: tensor<?x4xf32, #edge>, %x: tensor<?x4xf32, #node>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %w = mp.contract_rows %e, %e : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<4x4xf32>
  %b = mp.sum_rows %x : tensor<?x4xf32, #node> -> tensor<4xf32>
  %t = math.tanh %x : tensor<?x4xf32, #node>
  %v = mp.contract_rows %x, %t : tensor<?x4xf32, #node>, tensor<?x4xf32, #node> -> tensor<4x4xf32>
  return %w, %v, %b : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}

// -----

// A total is complete after the last row: who reads it is another kernel, even
// over the same rows by the same end.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @read_later
// CHECK: %[[B:.*]] = mp.kernel over #mp.rows<0, node> by dst {{.*}} -> tensor<4xf32>
// CHECK: mp.sum_rows
// CHECK: }
// CHECK: mp.kernel over #mp.rows<0, node> by dst ({{.*}}%{{.*}} = %[[B]]
// CHECK-NOT: mp.sum_rows
// CHECK: mp.reduce sum dst
func.func @read_later(%e: tensor<?x4xf32, #edge>, %x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %t = math.tanh %x : tensor<?x4xf32, #node>
  %b = mp.sum_rows %t : tensor<?x4xf32, #node> -> tensor<4xf32>
  %r = mp.broadcast %b : tensor<4xf32> -> tensor<?x4xf32, #edge>
  %p = arith.mulf %e, %r : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %p : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// -----

// What follows from a total is computed by the kernel of parameters.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @arithmetic_on_a_total
// CHECK: %[[B:.*]] = mp.kernel over #mp.rows<0, node>
// CHECK: mp.kernel over params (%{{.*}} = %[[B]])
// CHECK: arith.negf
func.func @arithmetic_on_a_total(%x: tensor<?x4xf32, #node>) -> tensor<4xf32> {
  %t = math.tanh %x : tensor<?x4xf32, #node>
  %b = mp.sum_rows %t : tensor<?x4xf32, #node> -> tensor<4xf32>
  %n = arith.negf %b : tensor<4xf32>
  return %n : tensor<4xf32>
}

// -----

// What a kernel of parameters makes of a total can wait: the sums over edges and
// their product, which needs another kernel of parameters first, are one kernel.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @parameters_can_wait
// CHECK: %[[W:.*]] = mp.kernel over params
// CHECK: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by src
// CHECK: mp.reduce sum src
// CHECK-DAG: mp.contract_rows
// CHECK-DAG: mp.linear
// CHECK: mp.kernel over params
// CHECK-NOT: mp.kernel over
// CHECK: return
func.func @parameters_can_wait(%x: tensor<?x4xf32, #node>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<?x4xf32, #node>) {
  %w = arith.addf %a, %b : tensor<4x4xf32>
  %u = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum src %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.contract_rows %x, %s in_kernel : tensor<?x4xf32, #node>, tensor<?x4xf32, #node> -> tensor<4x4xf32>
  %n = arith.negf %t : tensor<4x4xf32>
  %y = mp.linear %s, %w in_kernel : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
  return %n, %y : tensor<4x4xf32>, tensor<?x4xf32, #node>
}

// -----

// But not when the kernel that would compute both reads it.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @weight_of_a_total
// CHECK: mp.kernel over #mp.rows<0, node> by src
// CHECK: mp.contract_rows
// CHECK: mp.kernel over params
// CHECK: mp.kernel over #mp.rows<0, node> by src
// CHECK: mp.linear
func.func @weight_of_a_total(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %u = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum src %u : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.contract_rows %x, %s in_kernel : tensor<?x4xf32, #node>, tensor<?x4xf32, #node> -> tensor<4x4xf32>
  %n = arith.negf %t : tensor<4x4xf32>
  %y = mp.linear %s, %n in_kernel : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}
