define internal void @jwarp_histogram.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
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
  %v12 = getelementptr i8, ptr %p0, i64 %v11
  call void @llvm.masked.store.v8i8.p0(<8 x i8> zeroinitializer, ptr align 1 %v12, <8 x i1> %v5)
  br label %filled10
filled10:
  %v13 = sext i32 %v6 to i64
  %v14 = getelementptr i8, ptr %p0, i64 %v13
  %v15 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr align 1 %v14, <8 x i1> %v5, <8 x i8> zeroinitializer)
  %v16 = freeze <8 x i8> %v15
  %v17 = zext <8 x i8> %v16 to <8 x i32>
  %v18 = sext <8 x i32> %v17 to <8 x i64>
  %v19 = bitcast <8 x i1> %v5 to i8
  %v20 = zext i8 %v19 to i64
  call void @add.all.int32(ptr %p1, <8 x i64> %v18, <8 x i32> splat (i32 1), i64 %v20)
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
