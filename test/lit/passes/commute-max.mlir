// RUN: gossamer-opt %s --mp-commute-max --split-input-file | FileCheck %s

// relu of a sum with the node's own row: the maximum of the other end is enough.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @relu_of_sum
// CHECK-SAME: (%[[Q:[a-z0-9]+]]: tensor{{.*}}, %[[T:[a-z0-9]+]]: tensor{{.*}})
func.func @relu_of_sum(%q: tensor<?x8xf32, #node>, %t: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #node> {
  // CHECK: %[[U:.*]] = mp.gather src %[[Q]]
  // CHECK-NEXT: %[[S:.*]] = mp.reduce max dst %[[U]] : {{.*}} -> tensor<?x8xf32, #mp.rows<0, node>>
  // CHECK-NEXT: %[[A:.*]] = arith.addf %[[S]], %[[T]]
  // CHECK: %[[C:.*]] = arith.cmpf ole, %[[A]]
  // CHECK: %[[R:.*]] = arith.select %[[C]], {{.*}}, %[[A]]
  // CHECK: %[[D:.*]] = mp.degree dst
  // CHECK: %[[NONE:.*]] = arith.cmpi eq, %[[D]]
  // CHECK: %[[Y:.*]] = arith.select {{.*}}, {{.*}}, %[[R]]
  // CHECK: return %[[Y]]
  %u = mp.gather src %q : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %v = mp.gather dst %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %a = arith.addf %u, %v : tensor<?x8xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x8xf32, #edge>
  %c = arith.cmpf ole, %a, %zero : tensor<?x8xf32, #edge>
  %r = arith.select %c, %zero, %a : tensor<?x8xi1, #edge>, tensor<?x8xf32, #edge>
  %y = mp.reduce max dst %r : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %y : tensor<?x8xf32, #node>
}

// -----

// What is subtracted makes a minimum of a maximum, and a second sign takes it
// back; how ties share a gradient stays.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @signs
func.func @signs(%q: tensor<?x8xf32, #node>, %t: tensor<?x8xf32, #node>) -> (tensor<?x8xf32, #node>, tensor<?x8xf32, #node>) {
  // CHECK: %[[V:.*]] = mp.gather dst
  // CHECK: mp.reduce min src %[[V]] ties even
  // CHECK: arith.subf
  // CHECK: mp.reduce min src %[[V]]
  // CHECK: arith.subf
  // CHECK: arith.negf
  %u = mp.gather src %q : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %v = mp.gather dst %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %a = arith.subf %u, %v : tensor<?x8xf32, #edge>
  %y = mp.reduce max src %a ties even : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  %b = arith.subf %u, %v : tensor<?x8xf32, #edge>
  %n = arith.negf %b : tensor<?x8xf32, #edge>
  %z = mp.reduce min src %n : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %y, %z : tensor<?x8xf32, #node>, tensor<?x8xf32, #node>
}

// -----

// Slopes above and below 0, positive factors, exp: all keep order.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @leaky_and_exp
// CHECK-SAME: (%[[Q:[a-z0-9]+]]: tensor
func.func @leaky_and_exp(%q: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #node> {
  // CHECK: %[[U:.*]] = mp.gather src %[[Q]]
  // CHECK: mp.reduce max dst %[[U]]
  // CHECK: math.exp {{.*}}node
  %u = mp.gather src %q : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x8xf32, #edge>
  %slope = mp.fill 0.2 : f32 : tensor<?x8xf32, #edge>
  %two = mp.fill 2.0 : f32 : tensor<?x8xf32, #edge>
  %c = arith.cmpf ogt, %u, %zero : tensor<?x8xf32, #edge>
  %l = arith.mulf %u, %slope : tensor<?x8xf32, #edge>
  %r = arith.select %c, %u, %l : tensor<?x8xi1, #edge>, tensor<?x8xf32, #edge>
  %h = arith.divf %r, %two : tensor<?x8xf32, #edge>
  %e = math.exp %h : tensor<?x8xf32, #edge>
  %y = mp.reduce max dst %e : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %y : tensor<?x8xf32, #node>
}

// -----

// A product with rows of the node may turn order around; a slope below 0 does;
// relu that makes 0 of NaN would hide the others when all see the NaN.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @no_order
func.func @no_order(%q: tensor<?x8xf32, #node>, %t: tensor<?x8xf32, #node>)
    -> (tensor<?x8xf32, #node>, tensor<?x8xf32, #node>, tensor<?x8xf32, #node>) {
  %u = mp.gather src %q : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %v = mp.gather dst %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %zero = mp.fill 0.0 : f32 : tensor<?x8xf32, #edge>
  %slope = mp.fill -0.2 : f32 : tensor<?x8xf32, #edge>
  %c = arith.cmpf ogt, %u, %zero : tensor<?x8xf32, #edge>
  // CHECK: %[[M:.*]] = arith.mulf {{.*}}edge
  // CHECK: mp.reduce max dst %[[M]]
  %m = arith.mulf %u, %v : tensor<?x8xf32, #edge>
  %a = mp.reduce max dst %m : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  // CHECK: %[[R:.*]] = arith.select {{.*}}edge
  // CHECK: mp.reduce max dst %[[R]]
  %l = arith.mulf %u, %slope : tensor<?x8xf32, #edge>
  %r = arith.select %c, %u, %l : tensor<?x8xi1, #edge>, tensor<?x8xf32, #edge>
  %b = mp.reduce max dst %r : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  // CHECK: %[[S:.*]] = arith.select {{.*}}edge
  // CHECK: mp.reduce max dst %[[S]]
  %above = arith.cmpf ogt, %u, %zero : tensor<?x8xf32, #edge>
  %s = arith.select %above, %u, %zero : tensor<?x8xi1, #edge>, tensor<?x8xf32, #edge>
  %d = mp.reduce max dst %s : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %a, %b, %d : tensor<?x8xf32, #node>, tensor<?x8xf32, #node>, tensor<?x8xf32, #node>
}

// -----

// What edges need anyway is not computed once more per node. Sums are no maxima.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @needed_on_edges
func.func @needed_on_edges(%q: tensor<?x8xf32, #node>) -> (tensor<?x8xf32, #node>, tensor<?x8xf32, #edge>, tensor<?x8xf32, #node>) {
  %u = mp.gather src %q : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  // CHECK: %[[E:.*]] = math.exp
  // CHECK-NEXT: mp.reduce max dst %[[E]]
  %e = math.exp %u : tensor<?x8xf32, #edge>
  %y = mp.reduce max dst %e : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  // CHECK-NEXT: %[[T:.*]] = math.tanh
  // CHECK-NEXT: mp.reduce sum dst %[[T]]
  %t = math.tanh %u : tensor<?x8xf32, #edge>
  %s = mp.reduce sum dst %t : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %y, %e, %s : tensor<?x8xf32, #node>, tensor<?x8xf32, #edge>, tensor<?x8xf32, #node>
}

// -----

// Torch has the maximum in bf16, and so may what replaces it be in memory; the
// maximum of rounded rows is one of them.
#node = #mp.rows<0, node>
#edge = #mp.rows<0, edge>
// CHECK-LABEL: func @stored_as
func.func @stored_as(%q: tensor<?x8xf32, #node>, %t: tensor<?x8xf32, #node>) -> tensor<?x8xf32, #node> {
  // CHECK: %[[U:.*]] = math.absf {{.*}} {mp.stored_as = bf16}
  // CHECK: mp.reduce max dst %[[U]] {mp.stored_as = bf16}
  // CHECK: arith.addf {{.*}} {mp.stored_as = bf16}
  // CHECK: %[[Y:.*]] = arith.select {{.*}} {mp.stored_as = bf16}
  // CHECK: return %[[Y]]
  %u = mp.gather src %q : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %p = math.absf %u {mp.stored_as = bf16} : tensor<?x8xf32, #edge>
  %v = mp.gather dst %t : tensor<?x8xf32, #node> -> tensor<?x8xf32, #edge>
  %a = arith.addf %p, %v {mp.stored_as = bf16} : tensor<?x8xf32, #edge>
  %y = mp.reduce max dst %a {mp.stored_as = bf16} : tensor<?x8xf32, #edge> -> tensor<?x8xf32, #node>
  return %y : tensor<?x8xf32, #node>
}
