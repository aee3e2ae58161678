define internal void @jwarp_overflow.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias %p3, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v6 = load float, ptr %p1, align 4
  %v10 = insertelement <8 x float> poison, float %v6, i64 0
  %v11 = shufflevector <8 x float> %v10, <8 x float> poison, <8 x i32> zeroinitializer
  %v22 = load float, ptr %p1, align 4
  %v27 = insertelement <8 x float> poison, float %v22, i64 0
  %v28 = shufflevector <8 x float> %v27, <8 x float> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  br label %col.head
col.head:
  %col = phi i64 [%col.begin, %row.start], [%col.next, %col.latch]
  %left = sub i64 %col.end, %col
  %col.more = icmp sge i64 %left, 1
  br i1 %col.more, label %col.body, label %row.latch
col.body:
  %v1 = trunc i64 %col to i32
  %v2 = icmp sge i64 %left, 8
  br i1 %v2, label %fast3, label %slow4
fast3:
  %v7 = sext i32 %v1 to i64
  %v8 = getelementptr float, ptr %p0, i64 %v7
  %v9 = load <8 x float>, ptr %v8, align 4
  %v12 = fcmp olt <8 x float> %v9, %v11
  %v13 = fsub contract <8 x float> %v9, %v11
  %v14 = select <8 x i1> %v12, <8 x float> %v9, <8 x float> %v11
  %v15 = select <8 x i1> %v12, <8 x float> splat (float 0x0000000000000000), <8 x float> %v13
  %v16 = getelementptr float, ptr %p2, i64 %v7
  store <8 x float> %v14, ptr %v16, align 4
  %v17 = getelementptr float, ptr %p3, i64 %v7
  store <8 x float> %v15, ptr %v17, align 4
  br label %done5
slow4:
  %v18 = trunc i64 %left to i32
  %v19 = insertelement <8 x i32> poison, i32 %v18, i64 0
  %v20 = shufflevector <8 x i32> %v19, <8 x i32> poison, <8 x i32> zeroinitializer
  %v21 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v20
  %v23 = sext i32 %v1 to i64
  %v24 = getelementptr float, ptr %p0, i64 %v23
  %v25 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v24, <8 x i1> %v21, <8 x float> zeroinitializer)
  %v26 = freeze <8 x float> %v25
  %v29 = fcmp olt <8 x float> %v26, %v28
  %v30 = fsub contract <8 x float> %v26, %v28
  %v31 = select <8 x i1> %v29, <8 x float> %v26, <8 x float> %v28
  %v32 = select <8 x i1> %v29, <8 x float> splat (float 0x0000000000000000), <8 x float> %v30
  %v33 = getelementptr float, ptr %p2, i64 %v23
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v31, ptr align 4 %v33, <8 x i1> %v21)
  %v34 = getelementptr float, ptr %p3, i64 %v23
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v32, ptr align 4 %v34, <8 x i1> %v21)
  br label %done5
done5:
  br label %col.latch
col.latch:
  %col.next = add i64 %col, 8
  br label %col.head
row.latch:
  %row.next = add i64 %row, 1
  %row.more = icmp slt i64 %row.next, %row.end
  br i1 %row.more, label %row.start, label %exit
exit:
  ret void
}
