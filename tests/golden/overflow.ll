define internal void @jwarp_overflow.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias %p3, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v13 = load float, ptr %p1, align 4
  %v18 = insertelement <8 x float> poison, float %v13, i64 0
  %v19 = shufflevector <8 x float> %v18, <8 x float> poison, <8 x i32> zeroinitializer
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
  %v7 = and i64 %fill, 1
  %v8 = icmp ne i64 %v7, 0
  br i1 %v8, label %fill9, label %filled10
fill9:
  %v11 = sext i32 %v6 to i64
  %v12 = getelementptr float, ptr %p0, i64 %v11
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v12, <8 x i1> %v5)
  br label %filled10
filled10:
  %v14 = sext i32 %v6 to i64
  %v15 = getelementptr float, ptr %p0, i64 %v14
  %v16 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v15, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v17 = freeze <8 x float> %v16
  %v20 = fcmp olt <8 x float> %v17, %v19
  %v21 = fsub contract <8 x float> %v17, %v19
  %v22 = select <8 x i1> %v20, <8 x float> %v17, <8 x float> %v19
  %v23 = select <8 x i1> %v20, <8 x float> splat (float 0x0000000000000000), <8 x float> %v21
  %v24 = getelementptr float, ptr %p2, i64 %v14
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v22, ptr align 4 %v24, <8 x i1> %v5)
  %v25 = getelementptr float, ptr %p3, i64 %v14
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v23, ptr align 4 %v25, <8 x i1> %v5)
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
