// RUN: gossamer-opt %s --mp-form-kernels --mp-verify-kernels --split-input-file | FileCheck %s

// A product that belongs to kernels is in the one that sums its input; what
// follows is, too.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @sum_product_bias
// CHECK: %[[K:.*]] = mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.reduce sum dst
// CHECK: mp.linear {{.*}} in_kernel
// CHECK: arith.addf
// CHECK-NOT: mp.kernel
// CHECK: return %[[K]]
func.func @sum_product_bias(%x: tensor<?x4xf32, #node>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<?x8xf32, #node> {
  %m = mp.gather src %x : tensor<?x4xf32, #node> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %l = mp.linear %s, %w in_kernel : tensor<?x4xf32, #node>, tensor<4x8xf32> -> tensor<?x8xf32, #node>
  %bb = mp.broadcast %b : tensor<8xf32> -> tensor<?x8xf32, #node>
  %y = arith.addf %l, %bb : tensor<?x8xf32, #node>
  return %y : tensor<?x8xf32, #node>
}

// -----

// Read at the other end, products are a table; so are the scores of attention,
// which are computed where the product is: it is not read again for them.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @scores
// CHECK: %[[K:.*]]:3 = mp.kernel over #mp.rows<0, node> by dst (%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK: mp.linear
// CHECK-COUNT-2: mp.reduce_axis sum
// CHECK: mp.kernel
// CHECK-NOT: mp.reduce_axis
// CHECK: return
func.func @scores(%x: tensor<?x4xf32, #node>, %w: tensor<4x8xf32>, %p: tensor<8xf32>, %q: tensor<8xf32>) -> tensor<?x8xf32, #node> {
  %z = mp.linear %x, %w in_kernel : tensor<?x4xf32, #node>, tensor<4x8xf32> -> tensor<?x8xf32, #node>
  %pb = mp.broadcast %p : tensor<8xf32> -> tensor<?x8xf32, #node>
  %qb = mp.broadcast %q : tensor<8xf32> -> tensor<?x8xf32, #node>
  %zp = arith.mulf %z, %pb : tensor<?x8xf32, #node>
  %zq = arith.mulf %z, %qb : tensor<?x8xf32, #node>
  %l = mp.reduce_axis sum %zp axis 1 : tensor<?x8xf32, #node> -> tensor<?xf32, #node>
  %r = mp.reduce_axis sum %zq axis 1 : tensor<?x8xf32, #node> -> tensor<?xf32, #node>
  %le = mp.gather src %l : tensor<?xf32, #node> -> tensor<?xf32, #edge>
  %re = mp.gather dst %r : tensor<?xf32, #node> -> tensor<?xf32, #edge>
  %e = arith.addf %le, %re : tensor<?xf32, #edge>
  %e1 = mp.reshape %e : tensor<?xf32, #edge> -> tensor<?x1xf32, #edge>
  %eb = mp.broadcast %e1 : tensor<?x1xf32, #edge> -> tensor<?x8xf32, #edge>
  %ze = mp.gather src %z : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %m = arith.mulf %eb, %ze : tensor<?x8xf32, #edge>
  %h = mp.reduce sum dst %m : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %h : tensor<?x8xf32, #node>
}

// -----

// A product is computed once: by the other end of the edges its rows are read.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @both_ends
// CHECK: %[[Z:.*]] = mp.kernel over #mp.rows<0, node> by dst
// CHECK: mp.linear
// CHECK-NOT: mp.linear
// CHECK: return
func.func @both_ends(%x: tensor<?x4xf32, #node>, %w: tensor<4x4xf32>, %e: tensor<?x4xf32, #edge>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  %z = mp.linear %x, %w in_kernel : tensor<?x4xf32, #node>, tensor<4x4xf32> -> tensor<?x4xf32, #node>
  %s = mp.reduce sum dst %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %t = mp.reduce sum src %e : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #node>
  %a = arith.addf %s, %z : tensor<?x4xf32, #node>
  %b = arith.addf %t, %z : tensor<?x4xf32, #node>
  return %a, %b : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// Wide rows from one number per row: computed by the kernel that reads them,
// though it goes by the other end. The number is what is stored.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @wide_from_narrow
// CHECK: %[[S:.*]] = mp.kernel over #mp.rows<0, node> by dst {{.*}} -> tensor<?x1xf32, #mp.rows<0, node>>
// CHECK-NOT: mp.linear
// CHECK: mp.kernel over #mp.rows<0, node> by src ({{.*}} = %[[S]]
// CHECK: mp.linear
func.func @wide_from_narrow(%e: tensor<?x1xf32, #edge>, %w: tensor<1x8xf32>) -> tensor<?x8xf32, #node> {
  %s = mp.reduce sum dst %e : tensor<?x1xf32, #edge> -> tensor<?x1xf32, #node>
  %l = mp.linear %s, %w in_kernel : tensor<?x1xf32, #node>, tensor<1x8xf32> -> tensor<?x8xf32, #node>
  %g = mp.gather dst %s : tensor<?x1xf32, #node> -> tensor<?x1xf32, #edge>
  %b = mp.broadcast %g : tensor<?x1xf32, #edge> -> tensor<?x8xf32, #edge>
  %t = mp.reduce sum src %b : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  %y = arith.addf %l, %t : tensor<?x8xf32, #node>
  return %y : tensor<?x8xf32, #node>
}

// -----

// The backward of a convolution is one kernel: sums of gradients are multiplied
// and added up where they are computed, and never stored.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @backward
// CHECK: %[[K:.*]]:2 = mp.kernel over #mp.rows<0, node> by src {{.*}} -> (tensor<4x8xf32>, tensor<?x4xf32, {{.*}}>)
// CHECK: mp.reduce sum src
// CHECK: mp.linear
// CHECK: mp.contract_rows
// CHECK-NOT: mp.kernel
// CHECK: return %[[K]]#1, %[[K]]#0
func.func @backward(%x: tensor<?x4xf32, #node>, %g: tensor<?x8xf32, #node>, %w: tensor<8x4xf32>) -> (tensor<?x4xf32, #node>, tensor<4x8xf32>) {
  %m = mp.gather dst %g : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %s = mp.reduce sum src %m : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  %l = mp.linear %s, %w in_kernel : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %c = mp.contract_rows %x, %s in_kernel : tensor<?x4xf32, #node>, tensor<?x8xf32, #node> -> tensor<4x8xf32>
  return %l, %c : tensor<?x4xf32, #node>, tensor<4x8xf32>
}

// -----

// A product of own rows that is added to sums by source is computed beside
// them: its input is a table anyway, and the product need not be one.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @joins_its_reader
// CHECK: %[[H:.*]] = mp.kernel over #mp.rows<0, node> by dst {{.*}} -> tensor<?x8xf32, {{.*}}>
// CHECK-NOT: mp.linear
// CHECK: %[[Y:.*]] = mp.kernel over #mp.rows<0, node> by src ({{.*}} = %[[H]]{{.*}}) {{.*}} -> tensor<?x4xf32, {{.*}}>
// CHECK: mp.linear
// CHECK: mp.linear
// CHECK-NOT: mp.kernel
// CHECK: return %[[Y]]
func.func @joins_its_reader(%g: tensor<?x8xf32, #node>, %w: tensor<8x4xf32>, %v: tensor<8x4xf32>) -> tensor<?x4xf32, #node> {
  %d = mp.degree dst : tensor<?xi64, #node>
  %f = arith.sitofp %d : tensor<?xi64, #node> to tensor<?xf32, #node>
  %c = mp.reshape %f : tensor<?xf32, #node> -> tensor<?x1xf32, #node>
  %b = mp.broadcast %c : tensor<?x1xf32, #node> -> tensor<?x8xf32, #node>
  %h = arith.mulf %g, %b : tensor<?x8xf32, #node>
  %p = mp.linear %h, %w in_kernel : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %m = mp.gather dst %h : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %s = mp.reduce sum src %m : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  %q = mp.linear %s, %v in_kernel : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %y = arith.addf %q, %p : tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}
