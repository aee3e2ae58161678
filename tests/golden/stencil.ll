define internal void @jwarp_stencil.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v17 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v18 = load i64, ptr %v17, align 8, !invariant.load !0
  %v19 = trunc i64 %v18 to i32
  %v20 = sub i32 %v19, 1
  %v21 = insertelement <8 x i32> poison, i32 %v20, i64 0
  %v22 = shufflevector <8 x i32> %v21, <8 x i32> poison, <8 x i32> zeroinitializer
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
  %v13 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v14 = shufflevector <8 x i32> %v13, <8 x i32> poison, <8 x i32> zeroinitializer
  %v15 = add <8 x i32> %v14, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v16 = icmp sgt <8 x i32> %v15, splat (i32 0)
  %v23 = icmp slt <8 x i32> %v15, %v22
  %v24 = and <8 x i1> %v16, %v23
  %v25 = and <8 x i1> %v5, %v24
  %v26 = add i32 %v6, 1
  %v27 = sext i32 %v26 to i64
  %v28 = getelementptr float, ptr %p0, i64 %v27
  %v29 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v28, <8 x i1> %v25, <8 x float> zeroinitializer)
  %v30 = freeze <8 x float> %v29
  %v31 = sub i32 %v6, 1
  %v32 = sext i32 %v31 to i64
  %v33 = getelementptr float, ptr %p0, i64 %v32
  %v34 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v33, <8 x i1> %v25, <8 x float> zeroinitializer)
  %v35 = freeze <8 x float> %v34
  %v36 = fsub contract <8 x float> %v30, %v35
  %v37 = sext i32 %v6 to i64
  %v38 = getelementptr float, ptr %p1, i64 %v37
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v36, ptr align 4 %v38, <8 x i1> %v25)
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
