// RUN: gossamer-opt %s --mp-commute-linear="join=true choices=true" --split-input-file | FileCheck %s --check-prefixes=CHECK,WIDTHS
// RUN: gossamer-opt %s --mp-commute-linear="join=true choices=true flip=1" --split-input-file | FileCheck %s --check-prefixes=CHECK,FLIPPED
// RUN: gossamer-opt %s --mp-commute-linear="join=true choices=true flip=2" --split-input-file | FileCheck %s --check-prefixes=CHECK,OTHERS

// Sources and destinations are other rows: which side is better depends on how
// many there are. As wide before as after, the product leaves the sum, unless
// it is flipped. A product costs 16 * 16 a row, a gathered byte 5.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @block
// WIDTHS-SAME: mp.choices = 1 : i64
// WIDTHS-SAME: mp.costs = {{\[\[}}#mp.rows<0, dst>, 256], [#mp.rows<0, edge>, 320]]
// FLIPPED-SAME: mp.choices = 1 : i64
// FLIPPED-SAME: mp.costs = {{\[\[}}#mp.rows<0, src>, 896], [#mp.rows<0, edge>, 320]]
// WIDTHS: mp.reduce mean dst
// WIDTHS: mp.linear {{.*}}#mp.rows<0, dst>
// FLIPPED: mp.linear {{.*}}#mp.rows<0, src>
// FLIPPED: mp.reduce mean dst
// OTHERS: mp.reduce mean dst
// OTHERS: mp.linear
func.func @block(%x: tensor<?x16xf32, #src>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, #dst> {
  %y = mp.linear %x, %w : tensor<?x16xf32, #src>, tensor<16x16xf32> -> tensor<?x16xf32, #src>
  %m = mp.gather src %y : tensor<?x16xf32, #src> -> tensor<?x16xf32, #edge>
  %s = mp.reduce mean dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #dst>
  return %s : tensor<?x16xf32, #dst>
}

// -----

// Narrower after the product: it stays before the gather, unless flipped.
#src = #mp.rows<0, src>
#dst = #mp.rows<0, dst>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @narrows
// WIDTHS-SAME: mp.costs = {{\[\[}}#mp.rows<0, src>, 224], [#mp.rows<0, edge>, 80]]
// FLIPPED-SAME: mp.costs = {{\[\[}}#mp.rows<0, dst>, 64], [#mp.rows<0, edge>, 320]]
// WIDTHS: mp.linear
// WIDTHS: mp.reduce sum dst
// FLIPPED: mp.reduce sum dst
// FLIPPED: mp.linear
func.func @narrows(%x: tensor<?x16xf32, #src>, %w: tensor<16x4xf32>) -> tensor<?x4xf32, #dst> {
  %y = mp.linear %x, %w : tensor<?x16xf32, #src>, tensor<16x4xf32> -> tensor<?x4xf32, #src>
  %m = mp.gather src %y : tensor<?x4xf32, #src> -> tensor<?x4xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x4xf32, #edge> -> tensor<?x4xf32, #dst>
  return %s : tensor<?x4xf32, #dst>
}

// -----

// Both ends are the same nodes: widths decide, nothing is noted.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @one_kind_of_nodes
// CHECK-NOT: mp.c
// CHECK: mp.reduce sum dst
// CHECK: mp.linear
func.func @one_kind_of_nodes(%x: tensor<?x16xf32, #node>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, #node> {
  %y = mp.linear %x, %w : tensor<?x16xf32, #node>, tensor<16x16xf32> -> tensor<?x16xf32, #node>
  %m = mp.gather src %y : tensor<?x16xf32, #node> -> tensor<?x16xf32, #edge>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge> -> tensor<?x16xf32, #node>
  return %s : tensor<?x16xf32, #node>
}

// -----

// Choices on two graphs are two groups: four variants.
#src0 = #mp.rows<0, src>
#dst0 = #mp.rows<0, dst>
#edge0 = #mp.rows<0, edge>
#src1 = #mp.rows<1, src>
#dst1 = #mp.rows<1, dst>
#edge1 = #mp.rows<1, edge>
// CHECK-LABEL: func @two_blocks
// CHECK-SAME: mp.choices = 2 : i64
// WIDTHS: mp.linear {{.*}}#mp.rows<0, dst>
// WIDTHS: mp.linear {{.*}}#mp.rows<1, dst>
// FLIPPED: mp.linear {{.*}}#mp.rows<0, src>
// FLIPPED: mp.linear {{.*}}#mp.rows<1, dst>
// OTHERS: mp.linear {{.*}}#mp.rows<0, dst>
// OTHERS: mp.linear {{.*}}#mp.rows<1, src>
func.func @two_blocks(%x: tensor<?x16xf32, #src0>, %z: tensor<?x16xf32, #src1>, %w: tensor<16x16xf32>) -> (tensor<?x16xf32, #dst0>, tensor<?x16xf32, #dst1>) {
  %y = mp.linear %x, %w : tensor<?x16xf32, #src0>, tensor<16x16xf32> -> tensor<?x16xf32, #src0>
  %m = mp.gather src %y : tensor<?x16xf32, #src0> -> tensor<?x16xf32, #edge0>
  %s = mp.reduce sum dst %m : tensor<?x16xf32, #edge0> -> tensor<?x16xf32, #dst0>
  %v = mp.linear %z, %w : tensor<?x16xf32, #src1>, tensor<16x16xf32> -> tensor<?x16xf32, #src1>
  %n = mp.gather src %v : tensor<?x16xf32, #src1> -> tensor<?x16xf32, #edge1>
  %t = mp.reduce sum dst %n : tensor<?x16xf32, #edge1> -> tensor<?x16xf32, #dst1>
  return %s, %t : tensor<?x16xf32, #dst0>, tensor<?x16xf32, #dst1>
}
