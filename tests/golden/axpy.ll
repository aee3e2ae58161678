define internal void @jwarp_axpy.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v19 = load float, ptr %p0, align 4
  %v24 = insertelement <8 x float> poison, float %v19, i64 0
  %v25 = shufflevector <8 x float> %v24, <8 x float> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  br label %rest.head
rest.head:
  %rest.col = phi i64 [%col.begin, %row.start], [%rest.col.next, %rest.latch]
  %rest.left = sub i64 %col.end, %rest.col
  %rest.more = icmp sge i64 %rest.left, 1
  br i1 %rest.more, label %rest.body, label %row.latch
rest.body:
  %v1 = call i64 @llvm.smin.i64(i64 %rest.left, i64 8)
  %v2 = trunc i64 %v1 to i32
  %v3 = insertelement <8 x i32> poison, i32 %v2, i64 0
  %v4 = shufflevector <8 x i32> %v3, <8 x i32> poison, <8 x i32> zeroinitializer
  %v5 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v4
  %v6 = trunc i64 %rest.col to i32
  %v7 = and i64 %fill, 2
  %v8 = icmp ne i64 %v7, 0
  br i1 %v8, label %fill9, label %filled10
fill9:
  %v11 = sext i32 %v6 to i64
  %v12 = getelementptr float, ptr %p1, i64 %v11
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v12, <8 x i1> %v5)
  br label %filled10
filled10:
  %v13 = and i64 %fill, 4
  %v14 = icmp ne i64 %v13, 0
  br i1 %v14, label %fill15, label %filled16
fill15:
  %v17 = sext i32 %v6 to i64
  %v18 = getelementptr float, ptr %p2, i64 %v17
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v18, <8 x i1> %v5)
  br label %filled16
filled16:
  %v20 = sext i32 %v6 to i64
  %v21 = getelementptr float, ptr %p1, i64 %v20
  %v22 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v21, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v23 = freeze <8 x float> %v22
  %v26 = fmul contract <8 x float> %v25, %v23
  %v27 = getelementptr float, ptr %p2, i64 %v20
  %v28 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v27, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v29 = freeze <8 x float> %v28
  %v30 = fadd contract <8 x float> %v26, %v29
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v30, ptr align 4 %v27, <8 x i1> %v5)
  br label %rest.latch
rest.latch:
  %rest.col.next = add i64 %rest.col, 8
  br label %rest.head
row.latch:
  %row.next = add i64 %row, 1
  %row.more = icmp slt i64 %row.next, %row.end
  br i1 %row.more, label %row.start, label %exit
exit:
  ret void
}
