// RUN: gossamer-opt %s --mp-pipeline | FileCheck %s --check-prefixes=CHECK,FAST
// RUN: gossamer-opt %s --mp-pipeline=numerics=strict | FileCheck %s --check-prefixes=CHECK,STRICT
// RUN: gossamer-opt %s --mp-pipeline="split-linear=false hoist-before-gather=false" | FileCheck %s --check-prefixes=CHECK,OFF
// RUN: gossamer-opt %s --mp-pipeline --remarks-filter=mp -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// Whatever is allowed, kernels come out; strict numerics keep the order of
// additions that the user wrote, so a product over both ends stays on edges.
// CHECK-LABEL: func @both_ends
// STRICT-NOT: #mp.rows<0, node>>, tensor<8x4xf32>
// CHECK: mp.kernel
// FAST-COUNT-2: mp.linear {{.*}} -> tensor<?x4xf32, #mp.rows<0, node>>
// FAST-NOT: mp.linear
// STRICT: mp.linear {{.*}} -> tensor<?x4xf32, #mp.rows<0, edge>>
// OFF: mp.linear {{.*}} -> tensor<?x4xf32, #mp.rows<0, edge>>
// CHECK: return
func.func @both_ends(%x: tensor<?x4xf32, #node>, %w: tensor<8x4xf32>) -> tensor<?x4xf32, #node> {
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %xv = mp.gather dst %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %c = mp.concat %xu, %xv axis 1 : tensor<?x4xf32, #edge>, tensor<?x4xf32, #edge> -> tensor<?x8xf32, #edge>
  // REMARK: [[@LINE+1]]:{{.*}} split-linear {{.*}} Numerics=reassociates
  %l = mp.linear %c, %w : tensor<?x8xf32, #edge>, tensor<8x4xf32> -> tensor<?x4xf32, #edge>
  %s = mp.reduce max dst %l : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// Rows of one end are multiplied per node under strict numerics too: exact.
// CHECK-LABEL: func @one_end
// FAST: mp.linear {{.*}} -> tensor<?x4xf32, #mp.rows<0, node>>
// STRICT: mp.linear {{.*}} -> tensor<?x4xf32, #mp.rows<0, node>>
// OFF-NOT: mp.linear {{.*}} -> tensor<?x4xf32, #mp.rows<0, node>>
// CHECK: return
func.func @one_end(%x: tensor<?x4xf32, #node>, %w: tensor<4x4xf32>) -> tensor<?x4xf32, #node> {
  %xu = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %l = mp.linear %xu, %w : tensor<?x4xf32, #edge>, tensor<4x4xf32> -> tensor<?x4xf32, #edge>
  %s = mp.reduce max dst %l : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}
