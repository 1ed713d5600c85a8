; What LLVM emits for a vector kernel: a constant pool and a libm call.
define void @scale_exp(ptr %x, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr <4 x float>, ptr %x, i64 %i
  %v = load <4 x float>, ptr %p, align 4
  %s = fmul <4 x float> %v, <float 1.0, float 2.0, float 3.0, float 4.0>
  %first = extractelement <4 x float> %s, i64 0
  %e = call float @expf(float %first)
  %r = insertelement <4 x float> %s, float %e, i64 0
  store <4 x float> %r, ptr %p, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
declare float @expf(float)
