// RUN: gossamer-opt %s --mp-differentiate="mode=backward wrt=0" --split-input-file | FileCheck %s
// RUN: gossamer-opt %s --mp-differentiate="mode=forward wrt=0" --split-input-file | FileCheck %s --check-prefix=FORWARD

// The gradient of a bf16 argument is bf16; all that leads to it is summed in
// f32 and rounded once.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @spmm
// CHECK-SAME: (%{{[a-z0-9]+}}: tensor{{[^%]*}}%[[G:[a-z0-9]+]]: tensor<?x64xbf16
// CHECK-SAME: -> tensor<?x64xbf16
// CHECK: %[[W:.*]] = arith.extf %[[G]]
// CHECK: %[[M:.*]] = mp.gather dst %[[W]]
// CHECK: %[[S:.*]] = mp.reduce sum src %[[M]] {{.*}}: tensor<?x64xf32
// CHECK: %[[N:.*]] = arith.truncf %[[S]]
// CHECK: return %[[N]]
func.func @spmm(%x: tensor<?x64xbf16, #node>) -> tensor<?x64xbf16, #node> {
  %w = arith.extf %x : tensor<?x64xbf16, #node> to tensor<?x64xf32, #node>
  %m = mp.gather src %w : tensor<?x64xf32, #node> -> tensor<?x64xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x64xf32, #edge> -> tensor<?x64xf32, #node>
  %n = arith.truncf %s : tensor<?x64xf32, #node> to tensor<?x64xbf16, #node>
  return %n : tensor<?x64xbf16, #node>
}

// -----

// An argument that is also a result: its gradients are added in f32.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @added
// CHECK-SAME: (%{{[a-z0-9]+}}: tensor{{[^%]*}}%[[G:[a-z0-9]+]]: tensor<?x4xbf16
// CHECK: %[[W:.*]] = arith.extf %[[G]]
// CHECK: %[[SUM:.*]] = arith.addf %[[W]], {{.*}} : tensor<?x4xf32
// CHECK: %[[N:.*]] = arith.truncf %[[SUM]]
// CHECK: return %[[N]]
func.func @added(%x: tensor<?x4xbf16, #node>) -> (tensor<?x4xbf16, #node>, tensor<?x4xf32, #node>) {
  %w = arith.extf %x : tensor<?x4xbf16, #node> to tensor<?x4xf32, #node>
  %s = arith.mulf %w, %w : tensor<?x4xf32, #node>
  return %x, %s : tensor<?x4xbf16, #node>, tensor<?x4xf32, #node>
}

// -----

// Saved rows have the format of torch's tensor, and the forward reads them
// rounded as the backward does. The gradient of such rows may be stored so, too.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// FORWARD-LABEL: func @saved
// FORWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x4xbf16, #mp.rows<0, node>>)
// FORWARD: %[[S:.*]] = mp.reduce sum
// FORWARD: %[[N:.*]] = arith.truncf %[[S]]
// FORWARD: %[[W:.*]] = arith.extf %[[N]]
// FORWARD: %[[Y:.*]] = math.sin %[[W]]
// FORWARD: return %[[Y]], %[[N]]
// CHECK-LABEL: func @saved
// CHECK: math.cos
// CHECK: arith.mulf {{.*}} {mp.stored_as = bf16}
func.func @saved(%x: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m {mp.stored_as = bf16} : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %y = math.sin %s : tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}
