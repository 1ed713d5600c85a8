// RUN: gossamer-opt %s --mp-lower-conversions=has-bf16=true | FileCheck %s --check-prefix=HAS
// RUN: gossamer-opt %s --mp-lower-conversions | FileCheck %s --check-prefix=BF16
// RUN: gossamer-opt %s --mp-lower-conversions=has-f16=false | FileCheck %s --check-prefix=NONE

// What the machine does stays. Rounding to bf16 is integer arithmetic on whole
// vectors elsewhere: half a unit of the last place, plus the last bit, and NaN
// apart. Widening bf16 is a shift everywhere.
// HAS-LABEL:  func.func @bf16
// HAS:        arith.extf
// HAS:        arith.truncf
// BF16-LABEL: func.func @bf16
// BF16:       arith.extf
// BF16-NOT:   arith.truncf
// BF16:       %[[BITS:.*]] = arith.bitcast %{{.*}} : vector<8xf32> to vector<8xi32>
// BF16:       arith.select
// BF16:       %[[LOW:.*]] = arith.trunci %{{.*}} : vector<8xi32> to vector<8xi16>
// BF16:       arith.bitcast %[[LOW]] : vector<8xi16> to vector<8xbf16>
func.func @bf16(%x: vector<8xbf16>) -> vector<8xbf16> {
  %w = arith.extf %x : vector<8xbf16> to vector<8xf32>
  %s = arith.addf %w, %w : vector<8xf32>
  %n = arith.truncf %s : vector<8xf32> to vector<8xbf16>
  return %n : vector<8xbf16>
}

// BF16-LABEL: func.func @f16
// BF16:       arith.extf
// BF16:       arith.truncf
// NONE-LABEL: func.func @f16
// NONE-NOT:   arith.extf
// NONE-NOT:   arith.truncf
// NONE:       return {{.*}} : f16
func.func @f16(%x: f16) -> f16 {
  %w = arith.extf %x : f16 to f32
  %s = arith.addf %w, %w : f32
  %n = arith.truncf %s : f32 to f16
  return %n : f16
}

// Other precisions are instructions.
// NONE-LABEL: func.func @f64
// NONE:       arith.extf
// NONE:       arith.truncf
func.func @f64(%x: f32) -> f32 {
  %w = arith.extf %x : f32 to f64
  %n = arith.truncf %w : f64 to f32
  return %n : f32
}
