// RUN: gossamer-opt %s --mp-list-derivatives -o /dev/null | FileCheck %s
// RUN: gossamer-opt %s --mp-list-derivatives -o /dev/null | FileCheck %s --check-prefix=COMPLETE

// CHECK-DAG: arith.mulf: known
// CHECK-DAG: math.floor: zero
// CHECK-DAG: mp.gather: known
// CHECK-DAG: mp.degree: zero
// CHECK-DAG: mp.mailbox: run resolve-mailbox first

// Every op of the dialect is in the table.
// COMPLETE-NOT: mp.{{.*}}: missing
module {}
