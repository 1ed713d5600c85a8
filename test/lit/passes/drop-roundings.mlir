// RUN: gossamer-opt %s --mp-drop-roundings --split-input-file | FileCheck %s

// Between two ops a value stays as it is. What made it remembers the format.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @between_ops
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
// CHECK-NEXT: %[[E:.*]] = math.exp %[[X]] {mp.stored_as = bf16}
// CHECK-NEXT: arith.addf %[[E]], %[[X]]
func.func @between_ops(%x: tensor<?x64xf32, #node>) -> tensor<?x64xf32, #node> {
  %e = math.exp %x : tensor<?x64xf32, #node>
  %n = arith.truncf %e : tensor<?x64xf32, #node> to tensor<?x64xbf16, #node>
  %w = arith.extf %n : tensor<?x64xbf16, #node> to tensor<?x64xf32, #node>
  %s = arith.addf %w, %x : tensor<?x64xf32, #node>
  return %s : tensor<?x64xf32, #node>
}

// -----

// A result is rounded, and the other reader gets the value before that.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @returned
// CHECK: %[[E:.*]] = math.exp {{.*}} {mp.stored_as = f16}
// CHECK-DAG: %[[N:.*]] = arith.truncf %[[E]]
// CHECK-DAG: %[[F:.*]] = math.floor %[[E]]
// CHECK: return %[[N]], %[[F]]
func.func @returned(%x: tensor<?x4xf32, #node>) -> (tensor<?x4xf16, #node>, tensor<?x4xf32, #node>) {
  %e = math.exp %x : tensor<?x4xf32, #node>
  %n = arith.truncf %e : tensor<?x4xf32, #node> to tensor<?x4xf16, #node>
  %w = arith.extf %n : tensor<?x4xf16, #node> to tensor<?x4xf32, #node>
  %s = math.floor %w : tensor<?x4xf32, #node>
  return %n, %s : tensor<?x4xf16, #node>, tensor<?x4xf32, #node>
}

// -----

// The user reads f32 as well: that is its format in memory.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @also_wide
// CHECK: math.exp %{{[a-z0-9]+}} : tensor
func.func @also_wide(%x: tensor<?x4xf32, #node>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  %e = math.exp %x : tensor<?x4xf32, #node>
  %n = arith.truncf %e : tensor<?x4xf32, #node> to tensor<?x4xbf16, #node>
  %w = arith.extf %n : tensor<?x4xbf16, #node> to tensor<?x4xf32, #node>
  %s = math.floor %w : tensor<?x4xf32, #node>
  return %e, %s : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// f64 to f32 is what the user asked for.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @other_precisions
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: arith.extf
func.func @other_precisions(%x: tensor<?x4xf64, #node>) -> tensor<?x4xf64, #node> {
  %n = arith.truncf %x : tensor<?x4xf64, #node> to tensor<?x4xf32, #node>
  %w = arith.extf %n : tensor<?x4xf32, #node> to tensor<?x4xf64, #node>
  return %w : tensor<?x4xf64, #node>
}
