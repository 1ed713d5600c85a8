// RUN: gossamer-opt %s --mp-decompose-softmax --split-input-file | FileCheck %s

// The definition of softmax, on the rows that the function has for the nodes.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @homogeneous
// CHECK-SAME: %[[E:[a-z0-9]+]]: tensor<?x2xf32
func.func @homogeneous(%e: tensor<?x2xf32, #edge>, %x: tensor<?x2xf32, #node>) -> tensor<?x2xf32, #edge> {
  // CHECK: %[[M:.*]] = mp.reduce max dst %[[E]] : {{.*}} -> tensor<?x2xf32, #mp.rows<0, node>>
  // CHECK: %[[ME:.*]] = mp.gather dst %[[M]]
  // CHECK: %[[S:.*]] = arith.subf %[[E]], %[[ME]]
  // CHECK: %[[P:.*]] = math.exp %[[S]]
  // CHECK: %[[Z:.*]] = mp.reduce sum dst %[[P]]
  // CHECK: %[[ZE:.*]] = mp.gather dst %[[Z]]
  // CHECK: %[[A:.*]] = arith.divf %[[P]], %[[ZE]]
  // CHECK: return %[[A]]
  %a = mp.softmax dst %e : tensor<?x2xf32, #edge>
  return %a : tensor<?x2xf32, #edge>
}

// -----

#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @bipartite
func.func @bipartite(%e: tensor<?x2xf32, #edge>) -> tensor<?x2xf32, #edge> {
  // CHECK: mp.reduce max src {{.*}} -> tensor<?x2xf32, #mp.rows<0, src>>
  // CHECK: mp.reduce sum src {{.*}} -> tensor<?x2xf32, #mp.rows<0, src>>
  %a = mp.softmax src %e : tensor<?x2xf32, #edge>
  return %a : tensor<?x2xf32, #edge>
}

// -----

// The same along features.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @softmax_over_features
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor
func.func @softmax_over_features(%x: tensor<?x2x4xf32, #node>) -> tensor<?x2x4xf32, #node> {
  // CHECK: %[[MAX:.*]] = mp.reduce_axis max %[[X]] axis 1 : {{.*}} -> tensor<?x4xf32
  // CHECK: %[[MAX1:.*]] = mp.reshape %[[MAX]] : {{.*}} -> tensor<?x1x4xf32
  // CHECK: %[[MAXB:.*]] = mp.broadcast %[[MAX1]]
  // CHECK: %[[D:.*]] = arith.subf %[[X]], %[[MAXB]]
  // CHECK: %[[P:.*]] = math.exp %[[D]]
  // CHECK: %[[Z:.*]] = mp.reduce_axis sum %[[P]] axis 1
  // CHECK: %[[Z1:.*]] = mp.reshape %[[Z]]
  // CHECK: %[[ZB:.*]] = mp.broadcast %[[Z1]]
  // CHECK: arith.divf %[[P]], %[[ZB]]
  %a = mp.softmax_axis %x axis 1 : tensor<?x2x4xf32, #node>
  return %a : tensor<?x2x4xf32, #node>
}
