// RUN: gossamer-opt %s --mp-lower-kernels='vector-bytes=64 accumulators=16' | FileCheck %s

// Rows of bf16 are read as such, half the bytes and one line to prefetch instead
// of two. Accumulators are f32, and one rounding makes the row that is stored.
// CHECK-LABEL: func.func @kernel_0
// CHECK:         scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-1:     llvm.intr.prefetch
// CHECK-NOT:         llvm.intr.prefetch
// CHECK-COUNT-2:     llvm.load {{.*}} {alignment = 2 : i64} : !llvm.ptr -> vector<16xbf16>
// CHECK:             arith.extf {{.*}} : vector<16xbf16> to vector<16xf32>
// CHECK-COUNT-2:     arith.addf {{.*}} : vector<16xf32>
// CHECK:         llvm.store {{.*}} : vector<16xf32>
// CHECK:         arith.truncf {{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK:         llvm.store {{.*}} : vector<16xbf16>
func.func @spmm(%x: tensor<?x32xbf16, #mp.rows<0, node>>) -> tensor<?x32xbf16, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x32xbf16, #mp.rows<0, node>>) -> tensor<?x32xbf16, #mp.rows<0, node>> {
    %m = mp.gather src %in : tensor<?x32xbf16, #mp.rows<0, node>> -> tensor<?x32xbf16, #mp.rows<0, edge>>
    %w = arith.extf %m : tensor<?x32xbf16, #mp.rows<0, edge>> to tensor<?x32xf32, #mp.rows<0, edge>>
    %s = mp.reduce sum dst %w : tensor<?x32xf32, #mp.rows<0, edge>> -> tensor<?x32xf32, #mp.rows<0, node>>
    %n = arith.truncf %s : tensor<?x32xf32, #mp.rows<0, node>> to tensor<?x32xbf16, #mp.rows<0, node>>
    mp.yield %n : tensor<?x32xbf16, #mp.rows<0, node>>
  }
  return %h : tensor<?x32xbf16, #mp.rows<0, node>>
}

// Lanes that are close come from two loads of a power of two, which overlap, not
// from one of nine: LLVM can't cut such a vector of bf16.
// CHECK-LABEL: func.func @kernel_1
// CHECK:         %[[LEFT:.*]] = llvm.load {{.*}} -> vector<8xbf16>
// CHECK:         %[[FROM_SECOND:.*]] = llvm.getelementptr {{.*}}[2]
// CHECK:         %[[RIGHT:.*]] = llvm.load %[[FROM_SECOND]] {{.*}} -> vector<8xbf16>
// CHECK:         vector.shuffle %[[LEFT]], %[[RIGHT]] [0, 1, 2, 3, 4, 5, 6, 15]
func.func @slice(%x: tensor<?x2x8xbf16, #mp.rows<0, edge>>) -> tensor<?x2x7xf32, #mp.rows<0, node>> attributes {mp.graphs = 1 : i64} {
  %h = mp.kernel over #mp.rows<0, node> by dst (%in = %x) : (tensor<?x2x8xbf16, #mp.rows<0, edge>>) -> tensor<?x2x7xf32, #mp.rows<0, node>> {
    %m = mp.slice %in axis 2 from 1 by 1 : tensor<?x2x8xbf16, #mp.rows<0, edge>> -> tensor<?x2x7xbf16, #mp.rows<0, edge>>
    %w = arith.extf %m : tensor<?x2x7xbf16, #mp.rows<0, edge>> to tensor<?x2x7xf32, #mp.rows<0, edge>>
    %s = mp.reduce sum dst %w : tensor<?x2x7xf32, #mp.rows<0, edge>> -> tensor<?x2x7xf32, #mp.rows<0, node>>
    mp.yield %s : tensor<?x2x7xf32, #mp.rows<0, node>>
  }
  return %h : tensor<?x2x7xf32, #mp.rows<0, node>>
}
