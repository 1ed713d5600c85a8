// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s
// RUN: gossamer-opt %s --split-input-file --mp-lower-kernels='wide-index=true' | FileCheck %s --check-prefix=WIDE

// A sum of neighbour rows: accumulators are values of the loop over edges, the
// rows some edges ahead are prefetched, and edge ids are never loaded: the array
// may be null. int64 arrays need no extension.
// CHECK-LABEL: func.func @spmm
// CHECK:         mp.scratch_bytes = 0 : i64, mp.scratch_bytes_per_degree = 0 : i64
// CHECK-SAME:    mp.uses_edges = true
// CHECK-LABEL: func.func @kernel_0
// CHECK-SAME:    (%[[CALL:.*]]: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr {llvm.noalias})
// CHECK:         %[[IDS:.*]] = llvm.getelementptr %[[CALL]][16]
// CHECK-NEXT:    %[[EDGE_IDS:.*]] = llvm.load %[[IDS]]
// CHECK-NOT:     %[[EDGE_IDS]]
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-2:     llvm.intr.prefetch
// CHECK-COUNT-2:     llvm.load {{.*}} : !llvm.ptr -> vector<16xf32>
// CHECK-COUNT-2:     arith.addf {{.*}} : vector<16xf32>
// CHECK-NOT:     %[[EDGE_IDS]]
// CHECK:         return
// WIDE-LABEL: func.func @kernel_0
// WIDE-NOT:   arith.extsi
func.func @spmm(%x: tensor<?x32xf32, #mp.rows<0, node>>) -> tensor<?x32xf32, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x32xf32, #mp.rows<0, node>>) -> tensor<?x32xf32, #mp.rows<0, node>> {
    %m = mp.gather src %in : tensor<?x32xf32, #mp.rows<0, node>> -> tensor<?x32xf32, #mp.rows<0, edge>>
    %s = mp.reduce sum dst %m : tensor<?x32xf32, #mp.rows<0, edge>> -> tensor<?x32xf32, #mp.rows<0, node>>
    mp.yield %s : tensor<?x32xf32, #mp.rows<0, node>>
  }
  return %h : tensor<?x32xf32, #mp.rows<0, node>>
}

// -----

// 100 features are six vectors of 16 and one of 4: no lane computes nothing.
// CHECK-LABEL: func.func @kernel_0
// CHECK: -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<4xf32>)
func.func @hundred(%x: tensor<?x100xf32, #mp.rows<0, node>>) -> tensor<?x100xf32, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x100xf32, #mp.rows<0, node>>) -> tensor<?x100xf32, #mp.rows<0, node>> {
    %m = mp.gather src %in : tensor<?x100xf32, #mp.rows<0, node>> -> tensor<?x100xf32, #mp.rows<0, edge>>
    %s = mp.reduce sum dst %m : tensor<?x100xf32, #mp.rows<0, edge>> -> tensor<?x100xf32, #mp.rows<0, node>>
    mp.yield %s : tensor<?x100xf32, #mp.rows<0, node>>
  }
  return %h : tensor<?x100xf32, #mp.rows<0, node>>
}

// -----

// Rows only: no graph array is touched, and the call says so. Tables and
// `stream` are all that is read of it.
// CHECK-LABEL: func.func @rows
// CHECK: mp.uses_edges = false
// CHECK-LABEL: func.func @kernel_0
// CHECK-SAME:    (%[[CALL:.*]]: !llvm.ptr {{.*}}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr {{.*}})
// CHECK-COUNT-2: %[[CALL]][
// CHECK-NOT:     %[[CALL]][
// CHECK:         return
func.func @rows(%x: tensor<?x32xf32, #mp.rows<0, node>>) -> tensor<?x32xf32, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x32xf32, #mp.rows<0, node>>) -> tensor<?x32xf32, #mp.rows<0, node>> {
    %e = math.exp %in : tensor<?x32xf32, #mp.rows<0, node>>
    mp.yield %e : tensor<?x32xf32, #mp.rows<0, node>>
  }
  return %h : tensor<?x32xf32, #mp.rows<0, node>>
}
