define internal void @jwarp_reverse.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v7 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v8 = load i64, ptr %v7, align 8, !invariant.load !0
  %v9 = trunc i64 %v8 to i32
  %v10 = sub i32 %v9, 1
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
  %v11 = sub i32 %v10, %v6
  %v12 = insertelement <8 x i32> poison, i32 %v11, i64 0
  %v13 = shufflevector <8 x i32> %v12, <8 x i32> poison, <8 x i32> zeroinitializer
  %v14 = add <8 x i32> %v13, <i32 0, i32 -1, i32 -2, i32 -3, i32 -4, i32 -5, i32 -6, i32 -7>
  %v15 = sext <8 x i32> %v14 to <8 x i64>
  %v16 = getelementptr float, ptr %p0, <8 x i64> %v15
  %v17 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v16, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v18 = freeze <8 x float> %v17
  %v19 = sext i32 %v6 to i64
  %v20 = getelementptr float, ptr %p1, i64 %v19
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v18, ptr align 4 %v20, <8 x i1> %v5)
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
