define internal void @jwarp_gather.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v10 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v11 = load i64, ptr %v10, align 8, !invariant.load !0
  %v12 = insertelement <8 x i64> poison, i64 %v11, i64 0
  %v13 = shufflevector <8 x i64> %v12, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v6 = sext i32 %v1 to i64
  %v7 = getelementptr i32, ptr %p0, i64 %v6
  %v8 = load <8 x i32>, ptr %v7, align 4
  %v9 = sext <8 x i32> %v8 to <8 x i64>
  %v14 = add <8 x i64> %v9, %v13
  %v15 = icmp slt <8 x i64> %v9, splat (i64 0)
  %v16 = select <8 x i1> %v15, <8 x i64> %v14, <8 x i64> %v9
  %v17 = icmp ult <8 x i64> %v16, %v13
  %v18 = getelementptr float, ptr %p1, <8 x i64> %v16
  %v19 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v18, <8 x i1> %v17, <8 x float> zeroinitializer)
  %v20 = freeze <8 x float> %v19
  %v21 = getelementptr float, ptr %p2, i64 %v6
  store <8 x float> %v20, ptr %v21, align 4
  br label %done5
slow4:
  %v22 = trunc i64 %left to i32
  %v23 = insertelement <8 x i32> poison, i32 %v22, i64 0
  %v24 = shufflevector <8 x i32> %v23, <8 x i32> poison, <8 x i32> zeroinitializer
  %v25 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v24
  %v26 = sext i32 %v1 to i64
  %v27 = getelementptr i32, ptr %p0, i64 %v26
  %v28 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v27, <8 x i1> %v25, <8 x i32> zeroinitializer)
  %v29 = freeze <8 x i32> %v28
  %v30 = sext <8 x i32> %v29 to <8 x i64>
  %v31 = add <8 x i64> %v30, %v13
  %v32 = icmp slt <8 x i64> %v30, splat (i64 0)
  %v33 = select <8 x i1> %v32, <8 x i64> %v31, <8 x i64> %v30
  %v34 = icmp ult <8 x i64> %v33, %v13
  %v35 = getelementptr float, ptr %p1, <8 x i64> %v33
  %v36 = and <8 x i1> %v25, %v34
  %v37 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v35, <8 x i1> %v36, <8 x float> zeroinitializer)
  %v38 = freeze <8 x float> %v37
  %v39 = getelementptr float, ptr %p2, i64 %v26
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v38, ptr align 4 %v39, <8 x i1> %v25)
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
