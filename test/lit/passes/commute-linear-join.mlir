// RUN: gossamer-opt %s --mp-commute-linear=join=true --split-input-file | FileCheck %s --check-prefixes=CHECK,JOIN
// RUN: gossamer-opt %s --mp-commute-linear --split-input-file | FileCheck %s --check-prefixes=CHECK,STAY

// Rows are as wide before the product as after it: multiplied after the sum,
// they are multiplied by the kernel that sums. A factor per node stays with the
// rows that are gathered.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @as_wide
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<?x16xf32
// JOIN-NOT: mp.linear
// JOIN: %[[P:.*]] = arith.mulf %[[X]]
// JOIN: mp.gather src %[[P]]
// JOIN: %[[S:.*]] = mp.reduce sum dst
// JOIN: mp.linear %[[S]]
// STAY: %[[L:.*]] = mp.linear %[[X]]
// STAY: %[[P:.*]] = arith.mulf %[[L]]
// STAY: mp.gather src %[[P]]
func.func @as_wide(%x: tensor<?x16xf32, #node>, %c: tensor<?x1xf32, #node>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, #node> {
  %y = mp.linear %x, %w : tensor<?x16xf32, #node>, tensor<16x16xf32> -> tensor<?x16xf32, #node>
  %b = mp.broadcast %c : tensor<?x1xf32, #node> -> tensor<?x16xf32, #node>
  %p = arith.mulf %y, %b : tensor<?x16xf32, #node>
  %m = mp.gather src %p : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
  return %s : tensor<?x16xf32, #node>
}

// -----

// A factor that differs along the row does not commute with the product.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @factor_along_the_row
// CHECK: mp.linear
// CHECK: mp.gather
// CHECK: mp.reduce
func.func @factor_along_the_row(%x: tensor<?x16xf32, #node>, %c: tensor<16xf32>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, #node> {
  %y = mp.linear %x, %w : tensor<?x16xf32, #node>, tensor<16x16xf32> -> tensor<?x16xf32, #node>
  %b = mp.broadcast %c : tensor<16xf32> -> tensor<?x16xf32, #node>
  %p = arith.mulf %y, %b : tensor<?x16xf32, #node>
  %m = mp.gather src %p : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
  return %s : tensor<?x16xf32, #node>
}

// -----

// Something else reads the products: they are stored anyway.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @read_elsewhere
// CHECK: mp.linear
// CHECK: mp.gather
// CHECK: mp.reduce
func.func @read_elsewhere(%x: tensor<?x16xf32, #node>, %w: tensor<16x16xf32>) -> (tensor<?x16xf32, #node>, tensor<?x16xf32, #node>) {
  %y = mp.linear %x, %w : tensor<?x16xf32, #node>, tensor<16x16xf32> -> tensor<?x16xf32, #node>
  %m = mp.gather src %y : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
  return %s, %y : tensor<?x16xf32, #node>, tensor<?x16xf32, #node>
}
