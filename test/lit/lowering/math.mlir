// RUN: gossamer-opt %s --mp-lower-math | FileCheck %s
// RUN: gossamer-opt %s --mp-lower-math=has-fma=false | FileCheck %s --check-prefix=NOFMA

// exp in f32 stays on vectors; sin calls libm per lane, as does exp in f64;
// floor is an instruction.
// CHECK-LABEL: func.func @math
// CHECK-NOT:     math.exp
// CHECK:         math.fma {{.*}} : vector<4xf32>
// CHECK-COUNT-4: call @sinf
// CHECK-COUNT-2: call @exp(
// CHECK:         math.floor
// NOFMA-LABEL: func.func @math
// NOFMA-NOT:     math.fma
// NOFMA:         return
func.func @math(%x: vector<4xf32>, %y: vector<2xf64>) -> (vector<4xf32>, vector<4xf32>, vector<2xf64>, vector<4xf32>) {
  %0 = math.exp %x : vector<4xf32>
  %1 = math.sin %x : vector<4xf32>
  %2 = math.exp %y : vector<2xf64>
  %3 = math.floor %x : vector<4xf32>
  return %0, %1, %2, %3 : vector<4xf32>, vector<4xf32>, vector<2xf64>, vector<4xf32>
}
