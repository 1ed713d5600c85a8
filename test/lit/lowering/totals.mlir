// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s

// A sum over all rows: rows are added in runs of 64, runs to the table of the
// total, which is not cleared.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         %[[STEP:.*]] = arith.constant 64 : i64
// CHECK:         scf.for %{{.*}} = %arg1 to %arg2 step %[[STEP]]
// CHECK:           scf.for
// CHECK:             scf.for {{.*}} iter_args
// CHECK:             arith.addf {{.*}} : vector<16xf32>
// CHECK:             llvm.store {{.*}} : vector<16xf32>
// CHECK:           }
// CHECK:           arith.addf {{.*}} : vector<16xf32>
// CHECK-COUNT-2:   llvm.store {{.*}} : vector<16xf32>
// CHECK:         }
// CHECK:         return
func.func @sum(%e: tensor<?x16xf32, #edge>) -> tensor<16xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%in = %e) : (tensor<?x16xf32, #edge>) -> tensor<16xf32> {
    %r = mp.reduce sum dst %in : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
    %s = mp.sum_rows %r : tensor<?x16xf32, #node> -> tensor<16xf32>
    mp.yield %s : tensor<16xf32>
  }
  return %h : tensor<16xf32>
}

// -----

// An outer product: the factors of 32 edges wait, whatever rows the edges belong
// to, and are multiplied in tiles of 4 rows by 2 vectors. What waits at the end
// is multiplied after the last row.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func.func @kernel_0
// CHECK:         scf.for %{{.*}} = %arg1 to %arg2
// CHECK:           scf.for
// CHECK-COUNT-3:     llvm.store {{.*}} : vector<16xf32>
// CHECK:             %[[FULL:.*]] = arith.constant 32 : i64
// CHECK:             arith.cmpi eq, %{{.*}}, %[[FULL]]
// CHECK:             scf.if
// CHECK:               scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK:         scf.if
// CHECK:           scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK:         return
func.func @outer(%x: tensor<?x16xf32, #edge>, %y: tensor<?x32xf32, #edge>) -> tensor<16x32xf32> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #node by dst (%a = %x, %b = %y) : (tensor<?x16xf32, #edge>, tensor<?x32xf32, #edge>) -> tensor<16x32xf32> {
    %t = arith.negf %a : tensor<?x16xf32, #edge>
    %s = mp.contract_rows %t, %b : tensor<?x16xf32, #edge>, tensor<?x32xf32, #edge> -> tensor<16x32xf32>
    mp.yield %s : tensor<16x32xf32>
  }
  return %h : tensor<16x32xf32>
}
