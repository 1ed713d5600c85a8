// RUN: gossamer-opt %s --mp-store-narrow --split-input-file | FileCheck %s

// Half the bytes per edge.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @gathered
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
// CHECK-NEXT: %[[M:.*]] = mp.gather src %[[X]] : tensor<?x64xbf16
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[M]] : tensor<?x64xbf16, #mp.rows<0, edge>> to tensor<?x64xf32
// CHECK-NEXT: mp.reduce sum dst %[[W]]
func.func @gathered(%x: tensor<?x64xbf16, #node>) -> tensor<?x64xf32, #node> {
  %w = arith.extf %x : tensor<?x64xbf16, #node> to tensor<?x64xf32, #node>
  %m = mp.gather src %w : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// Views of a table stay views.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @reshaped
// CHECK-NEXT: mp.reshape {{.*}} : tensor<?x64xbf16, #mp.rows<0, node>> -> tensor<?x4x16xbf16
// CHECK-NEXT: mp.gather src {{.*}} : tensor<?x4x16xbf16
// CHECK-NEXT: arith.extf
func.func @reshaped(%x: tensor<?x64xbf16, #node>) -> tensor<?x4x16xf32, #node> {
  %w = arith.extf %x : tensor<?x64xbf16, #node> to tensor<?x64xf32, #node>
  %r = mp.reshape %w : tensor<?x64xf32, #node> -> tensor<?x4x16xf32, #node>
  %m = mp.gather src %r : tensor<?x4x16xf32, #node> -> tensor<?x4x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4x16xf32, #edge> -> tensor<?x4x16xf32, #node>
  return %s : tensor<?x4x16xf32, #node>
}

// -----

// torch multiplies tensors of bf16 here, and has the result in bf16.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @product
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x8xbf16{{[^%]*}}%[[W:[a-z0-9]+]]: tensor<8x64xf32>
// CHECK: %[[V:.*]] = arith.truncf %[[W]] : tensor<8x64xf32> to tensor<8x64xbf16>
// CHECK: %[[H:.*]] = mp.linear %[[X]], %[[V]] : {{.*}} -> tensor<?x64xbf16
// CHECK: mp.gather src %[[H]]
func.func @product(%x: tensor<?x8xbf16, #node>, %w: tensor<8x64xf32>) -> tensor<?x64xf32, #node> {
  %v = arith.extf %x : tensor<?x8xbf16, #node> to tensor<?x8xf32, #node>
  %h = mp.linear %v, %w {mp.stored_as = bf16} : tensor<?x8xf32, #node>, tensor<8x64xf32> -> tensor<?x64xf32, #node>
  %m = mp.gather src %h : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// A product of f32 stays one, whatever its factors are widened from.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @wide_product
// CHECK: mp.linear {{.*}} -> tensor<?x64xf32
func.func @wide_product(%x: tensor<?x8xbf16, #node>, %w: tensor<8x64xf32>) -> tensor<?x64xf32, #node> {
  %v = arith.extf %x : tensor<?x8xbf16, #node> to tensor<?x8xf32, #node>
  %h = mp.linear %v, %w : tensor<?x8xf32, #node>, tensor<8x64xf32> -> tensor<?x64xf32, #node>
  return %h : tensor<?x64xf32, #node>
}

// -----

// The gradient of a weight: its factors are in memory anyway. Sums are f32.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @contracted
// CHECK: mp.contract_rows {{.*}} : tensor<?x8xbf16{{.*}}, tensor<?x16xbf16{{.*}} -> tensor<8x16xf32>
func.func @contracted(%x: tensor<?x8xbf16, #node>, %g: tensor<?x16xf32, #node>) -> tensor<8x16xf32> {
  %v = arith.extf %x : tensor<?x8xbf16, #node> to tensor<?x8xf32, #node>
  %e = math.exp %g {mp.stored_as = bf16} : tensor<?x16xf32, #node>
  %w = mp.contract_rows %v, %e : tensor<?x8xf32, #node>, tensor<?x16xf32, #node> -> tensor<8x16xf32>
  return %w : tensor<8x16xf32>
}

// -----

// One kernel writes rows for another: rounded for all who read them.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @between_kernels
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[N:.*]] = arith.truncf %[[E]]
// CHECK-DAG: mp.gather src %[[N]]
// CHECK-DAG: %[[W:.*]] = arith.extf %[[N]] : tensor<?x64xbf16, #mp.rows<0, node>>
// CHECK: arith.addf {{.*}}%[[W]]
func.func @between_kernels(%x: tensor<?x64xf32, #node>) -> tensor<?x64xf32, #node> {
  %e = math.exp %x {mp.stored_as = bf16} : tensor<?x64xf32, #node>
  %m = mp.gather src %e : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  %r = arith.addf %s, %e : tensor<?x64xf32, #node>
  return %r : tensor<?x64xf32, #node>
}

// -----

// What stays in a kernel is not rounded, and what the function returns in f32
// neither.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @not_stored
// CHECK-NOT: arith.truncf
// CHECK: return
func.func @not_stored(%x: tensor<?x64xf32, #node>) -> (tensor<?x64xf32, #node>, tensor<?x64xf32, #node>) {
  %e = math.exp %x {mp.stored_as = bf16} : tensor<?x64xf32, #node>
  %m = mp.gather src %e : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %a = math.absf %m {mp.stored_as = bf16} : tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %a {mp.stored_as = bf16} : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  %r = math.floor %s : tensor<?x64xf32, #node>
  return %r, %e : tensor<?x64xf32, #node>, tensor<?x64xf32, #node>
}
