// RUN: gossamer-opt %s --mp-differentiate="mode=forward wrt=0,1" | FileCheck %s --check-prefix=FORWARD
// RUN: gossamer-opt %s --mp-differentiate="mode=backward wrt=0,1" | FileCheck %s --check-prefix=BACKWARD
// RUN: gossamer-opt %s --mp-differentiate="mode=forward wrt=0,1" --remarks-filter=mp -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// Both halves agree on what is saved: where relu's slope is not 0, and the sums
// that the weight's gradient needs. The messages are not saved.
// FORWARD-LABEL: func @conv
// FORWARD-SAME: -> (tensor<?x8xf32, #mp.rows<0, node>>, tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x8xi1, #mp.rows<0, node>>)
// FORWARD: %[[S:.*]] = mp.reduce sum
// FORWARD: %[[P:.*]] = arith.cmpf
// FORWARD: %[[H:.*]] = arith.select
// FORWARD: return %[[H]], %[[S]], %[[P]]
// BACKWARD-LABEL: func @conv
// BACKWARD-SAME: %[[S:[^:]*]]: tensor<?x4xf32, #mp.rows<0, node>>, %[[P:[^:]*]]: tensor<?x8xi1, #mp.rows<0, node>>, %[[G:[^:]*]]: tensor<?x8xf32, #mp.rows<0, node>>)
// BACKWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<4x8xf32>)
// BACKWARD-NOT: mp.reduce sum dst
// BACKWARD: arith.select %[[P]], %[[G]]
// BACKWARD: mp.contract_rows %[[S]]
// BACKWARD: mp.reduce sum src
func.func @conv(%x: tensor<?x4xf32, #node>, %w: tensor<4x8xf32>) -> tensor<?x8xf32, #node> {
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  // REMARK: [[@LINE+1]]:{{.*}} differentiate {{.*}}BytesPerNode=16{{.*}}saved for the gradients
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %y = mp.linear %s, %w : tensor<?x4xf32, #node>, tensor<4x8xf32> -> tensor<?x8xf32, #node>
  %z = mp.fill 0.0 : f32 : tensor<?x8xf32, #node>
  %p = arith.cmpf ogt, %y, %z : tensor<?x8xf32, #node>
  %h = arith.select %p, %y, %z : tensor<?x8xi1, #node>, tensor<?x8xf32, #node>
  return %h : tensor<?x8xf32, #node>
}

// Of a softmax, its statistics are saved: two numbers per node.
// FORWARD-LABEL: func @attention
// FORWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>, tensor<?x1xf32, #mp.rows<0, node>>)
// BACKWARD-LABEL: func @attention
// BACKWARD-NOT: mp.reduce max
func.func @attention(%x: tensor<?x4xf32, #node>, %e: tensor<?x1xf32, #edge>) -> tensor<?x4xf32, #node> {
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %a = mp.softmax dst %e : tensor<?x1xf32, #edge>
  %b = mp.broadcast %a : tensor<?x1xf32, #edge> -> tensor<?x4xf32, #edge>
  %w = arith.mulf %m, %b : tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %w : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// Of a maximum, which edge attained it.
// FORWARD-LABEL: func @pool
// FORWARD-SAME: -> (tensor<?x4xf32, #mp.rows<0, node>>, tensor<?x4xi32, #mp.rows<0, node>>)
// BACKWARD-LABEL: func @pool
// BACKWARD-NOT: mp.reduce max
// BACKWARD: arith.cmpi eq
func.func @pool(%x: tensor<?x4xf32, #node>, %y: tensor<?x4xf32, #node>) -> tensor<?x4xf32, #node> {
  %u = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %v = mp.gather dst %y : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %m = arith.addf %u, %v : tensor<?x4xf32, #edge>
  %e = math.tanh %m : tensor<?x4xf32, #edge>
  %s = mp.reduce max dst %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  return %s : tensor<?x4xf32, #node>
}

// Rows that are narrow beside the argument they sum up: the backward reads them
// instead of the argument.
// FORWARD-LABEL: func @scores
// FORWARD-SAME: -> (tensor<?x1xf32, #mp.rows<0, node>>, tensor<?xf32, #mp.rows<0, node>>)
func.func @scores(%x: tensor<?x32xf32, #node>, %w: tensor<?x1xf32, #node>) -> tensor<?x1xf32, #node> {
  %d = mp.reduce_axis sum %x axis 1 : tensor<?x32xf32, #node> -> tensor<?xf32, #node>
  %r = mp.reshape %d : tensor<?xf32, #node> -> tensor<?x1xf32, #node>
  %e = math.exp %r : tensor<?x1xf32, #node>
  %u = mp.gather src %e : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %v = mp.gather dst %w : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %p = arith.mulf %u, %v : tensor<?x1xf32, #edge>
  %s = mp.reduce sum dst %p : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  return %s : tensor<?x1xf32, #node>
}
