// RUN: gossamer-opt %s --mp-differentiate="wrt=0" --remarks-filter=mp -o /dev/null 2>&1 | FileCheck %s
// RUN: gossamer-opt %s --mp-pipeline="differentiate=backward wrt=0" | FileCheck %s --check-prefix=STORED

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// The gradient of a weight that multiplies rows which exist on edges only needs
// these rows, and their gradients, as tables. The user is told.
// STORED-LABEL: func @second_layer
// STORED: %[[K:.*]]:2 = mp.kernel {{.*}} -> (tensor<?x4xf32, #mp.rows<0, edge>>, tensor<?x2xf32, #mp.rows<0, edge>>)
// STORED: mp.contract_rows
func.func @second_layer(%w: tensor<4x2xf32>, %e: tensor<?x4xf32, #edge>) -> tensor<?x2xf32, #node> {
  %t = math.tanh %e : tensor<?x4xf32, #edge>
  // CHECK: [[@LINE+1]]:{{.*}} [Missed] differentiate {{.*}}stores two rows per edge for the gradient of the weight of a product per edge
  %y = mp.linear %t, %w : tensor<?x4xf32, #edge>, tensor<4x2xf32> -> tensor<?x2xf32, #edge>
  %h = mp.reduce max dst %y : tensor<?x2xf32, #edge> -> tensor<?x2xf32, #node>
  return %h : tensor<?x2xf32, #node>
}
