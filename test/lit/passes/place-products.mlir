// RUN: gossamer-opt %s --mp-place-products | FileCheck %s --check-prefixes=CHECK,SIZE
// RUN: gossamer-opt %s --mp-place-products=by-size=false | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: gossamer-opt %s --mp-place-products --remarks-filter=mp -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>

// A weight that stays in the cache: a kernel multiplies the rows it visits.
// CHECK-LABEL: func @small_weight
// CHECK: mp.linear %{{.*}}, %{{.*}} in_kernel : tensor<?x64xf32
func.func @small_weight(%x: tensor<?x64xf32, #node>, %w: tensor<64x64xf32>) -> tensor<?x64xf32, #node> {
  // REMARK: [[@LINE+1]]:{{.*}} place-products {{.*}}multiplied inside a kernel
  %y = mp.linear %x, %w : tensor<?x64xf32, #node>, tensor<64x64xf32> -> tensor<?x64xf32, #node>
  return %y : tensor<?x64xf32, #node>
}

// One that does not is left to the library, unless sizes do not matter.
// CHECK-LABEL: func @large_weight
// SIZE: mp.linear %{{[^ ]*}}, %{{[^ ]*}} : tensor<?x1024xf32
// ALL: mp.linear %{{.*}} in_kernel : tensor<?x1024xf32
func.func @large_weight(%x: tensor<?x1024xf32, #node>, %w: tensor<1024x512xf32>) -> tensor<?x512xf32, #node> {
  // REMARK: [[@LINE+1]]:{{.*}} place-products {{.*}}left to the library
  %y = mp.linear %x, %w : tensor<?x1024xf32, #node>, tensor<1024x512xf32> -> tensor<?x512xf32, #node>
  return %y : tensor<?x512xf32, #node>
}

// Tables of 16 bits are widened by the kernel that multiplies them.
// CHECK-LABEL: func @narrow
// CHECK: mp.linear %{{.*}}, %{{.*}} in_kernel
// CHECK: mp.contract_rows %{{.*}}, %{{.*}} in_kernel
func.func @narrow(%x: tensor<?x64xbf16, #node>, %w: tensor<64x64xbf16>) -> (tensor<?x64xbf16, #node>, tensor<64x64xf32>) {
  %a = arith.extf %x : tensor<?x64xbf16, #node> to tensor<?x64xf32, #node>
  %b = arith.extf %w : tensor<64x64xbf16> to tensor<64x64xf32>
  %y = mp.linear %a, %b {mp.stored_as = bf16} : tensor<?x64xf32, #node>, tensor<64x64xf32> -> tensor<?x64xf32, #node>
  %n = arith.truncf %y : tensor<?x64xf32, #node> to tensor<?x64xbf16, #node>
  %g = mp.contract_rows %a, %y : tensor<?x64xf32, #node>, tensor<?x64xf32, #node> -> tensor<64x64xf32>
  return %n, %g : tensor<?x64xbf16, #node>, tensor<64x64xf32>
}

// On edges a product is in a kernel anyway; of parameters it is in none.
// CHECK-LABEL: func @not_on_nodes
// CHECK-NOT: in_kernel
func.func @not_on_nodes(%x: tensor<?x4xf32, #edge>, %w: tensor<4x4xf32>) -> (tensor<?x4xf32, #edge>, tensor<4x4xf32>) {
  %y = mp.linear %x, %w : tensor<?x4xf32, #edge>, tensor<4x4xf32> -> tensor<?x4xf32, #edge>
  %v = mp.linear %w, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %y, %v : tensor<?x4xf32, #edge>, tensor<4x4xf32>
}

// A sum of outer products is added up by the kernel that computes one of its
// tables. Where both exist anyway, or the sum is large, the library multiplies.
// CHECK-LABEL: func @gradients_of_weights
// CHECK: mp.contract_rows %{{.*}}, %{{.*}} in_kernel : tensor<?x64xf32
// CHECK: mp.contract_rows %{{[^ ]*}}, %{{[^ ]*}} : tensor<?x64xf32
// SIZE: mp.contract_rows %{{[^ ]*}}, %{{[^ ]*}} : tensor<?x64xf32
// ALL: mp.contract_rows %{{.*}} in_kernel : tensor<?x64xf32
func.func @gradients_of_weights(%x: tensor<?x64xf32, #node>, %g: tensor<?x16xf32, #node>, %h: tensor<?x512xf32, #node>) -> (tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x512xf32>) {
  %e = math.exp %g : tensor<?x16xf32, #node>
  %f = math.exp %h : tensor<?x512xf32, #node>
  // REMARK: [[@LINE+1]]:{{.*}} place-products {{.*}}added up inside a kernel
  %a = mp.contract_rows %x, %e : tensor<?x64xf32, #node>, tensor<?x16xf32, #node> -> tensor<64x16xf32>
  %b = mp.contract_rows %x, %g : tensor<?x64xf32, #node>, tensor<?x16xf32, #node> -> tensor<64x16xf32>
  // REMARK: [[@LINE+1]]:{{.*}} place-products {{.*}}left to the library: the sum is large
  %c = mp.contract_rows %x, %f : tensor<?x64xf32, #node>, tensor<?x512xf32, #node> -> tensor<64x512xf32>
  return %a, %b, %c : tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x512xf32>
}
