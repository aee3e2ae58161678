define internal void @jwarp_transpose.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %symbols, i64 0
  %v2 = load i64, ptr %v1, align 8, !invariant.load !0
  %v3 = urem i64 %row.begin, %v2
  %v4 = udiv i64 %row.begin, %v2
  %v22 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v23 = load i64, ptr %v22, align 8, !invariant.load !0
  %v39 = getelementptr inbounds i64, ptr %symbols, i64 7
  %v40 = load i64, ptr %v39, align 8, !invariant.load !0
  %v41 = insertelement <8 x i64> poison, i64 %v40, i64 0
  %v42 = shufflevector <8 x i64> %v41, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  %row.0 = phi i64 [%v3, %entry], [%v8, %row.latch]
  %v5 = trunc i64 %row.0 to i32
  %v6 = add i64 %row.0, 1
  %v7 = icmp eq i64 %v6, %v2
  %v8 = select i1 %v7, i64 0, i64 %v6
  %v9 = zext i1 %v7 to i64
  %v20 = sext i32 %v5 to i64
  %v37 = insertelement <8 x i64> poison, i64 %v20, i64 0
  %v38 = shufflevector <8 x i64> %v37, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %rest.head
rest.head:
  %rest.col = phi i64 [%col.begin, %row.start], [%rest.col.next, %rest.latch]
  %rest.left = sub i64 %col.end, %rest.col
  %rest.more = icmp sge i64 %rest.left, 1
  br i1 %rest.more, label %rest.body, label %row.latch
rest.body:
  %v10 = call i64 @llvm.smin.i64(i64 %rest.left, i64 8)
  %v11 = trunc i64 %v10 to i32
  %v12 = insertelement <8 x i32> poison, i32 %v11, i64 0
  %v13 = shufflevector <8 x i32> %v12, <8 x i32> poison, <8 x i32> zeroinitializer
  %v14 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v13
  %v15 = trunc i64 %rest.col to i32
  %v16 = and i64 %fill, 1
  %v17 = icmp ne i64 %v16, 0
  br i1 %v17, label %fill18, label %filled19
fill18:
  %v21 = sext i32 %v15 to i64
  %v24 = mul i64 %v20, %v23
  %v25 = add i64 %v24, %v21
  %v26 = getelementptr float, ptr %p0, i64 %v25
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v26, <8 x i1> %v14)
  br label %filled19
filled19:
  %v27 = sext i32 %v15 to i64
  %v28 = mul i64 %v20, %v23
  %v29 = add i64 %v28, %v27
  %v30 = getelementptr float, ptr %p0, i64 %v29
  %v31 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v30, <8 x i1> %v14, <8 x float> zeroinitializer)
  %v32 = freeze <8 x float> %v31
  %v33 = insertelement <8 x i32> poison, i32 %v15, i64 0
  %v34 = shufflevector <8 x i32> %v33, <8 x i32> poison, <8 x i32> zeroinitializer
  %v35 = add <8 x i32> %v34, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v36 = sext <8 x i32> %v35 to <8 x i64>
  %v43 = mul <8 x i64> %v36, %v42
  %v44 = add <8 x i64> %v43, %v38
  %v45 = getelementptr float, ptr %p1, <8 x i64> %v44
  call void @llvm.masked.scatter.v8f32.v8p0(<8 x float> %v32, <8 x ptr> align 4 %v45, <8 x i1> %v14)
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
