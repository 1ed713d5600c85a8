// RUN: gossamer-opt %s --mp-merge-linear --split-input-file | FileCheck %s

// Two products of one table become one.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @difference
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor{{.*}}, %[[P:[a-z0-9]+]]: tensor<8x4xf32>, %[[T:[a-z0-9]+]]: tensor<8x4xf32>)
func.func @difference(%x: tensor<?x8xf32, #node>, %p: tensor<8x4xf32>, %t: tensor<8x4xf32>) -> tensor<?x4xf32, #node> {
  // CHECK-NEXT: %[[W:.*]] = arith.subf %[[P]], %[[T]] : tensor<8x4xf32>
  // CHECK-NEXT: %[[Y:.*]] = mp.linear %[[X]], %[[W]]
  // CHECK-NEXT: return %[[Y]]
  %a = mp.linear %x, %p : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %b = mp.linear %x, %t : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %y = arith.subf %a, %b : tensor<?x4xf32, #node>
  return %y : tensor<?x4xf32, #node>
}

// -----

// As many products are left when one of them is needed anyway, and no sum.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @one_is_needed
func.func @one_is_needed(%x: tensor<?x8xf32, #node>, %p: tensor<8x4xf32>, %t: tensor<8x4xf32>) -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK-COUNT-2: mp.linear
  // CHECK-NOT: arith.addf {{.*}}tensor<?
  %a = mp.linear %x, %p : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %b = mp.linear %x, %t : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %y = arith.addf %a, %b : tensor<?x4xf32, #node>
  return %y, %b : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}

// -----

// A third product would be more work than a sum of two that are needed; products
// of two tables have no weight in common.
#node = #mp.rows<0, node>
// CHECK-LABEL: func @stays
func.func @stays(%x: tensor<?x8xf32, #node>, %z: tensor<?x8xf32, #node>, %p: tensor<8x4xf32>, %t: tensor<8x4xf32>)
    -> (tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>) {
  // CHECK-COUNT-3: mp.linear
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: arith.addf
  %a = mp.linear %x, %p : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %b = mp.linear %x, %t : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %c = mp.linear %z, %t : tensor<?x8xf32, #node>, tensor<8x4xf32> -> tensor<?x4xf32, #node>
  %y = arith.addf %a, %b : tensor<?x4xf32, #node>
  %w = arith.addf %a, %c : tensor<?x4xf32, #node>
  return %y, %w, %a, %b : tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>, tensor<?x4xf32, #node>
}
