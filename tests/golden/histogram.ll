define internal void @jwarp_histogram.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
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
  %v7 = getelementptr i8, ptr %p0, i64 %v6
  %v8 = load <8 x i8>, ptr %v7, align 1
  %v9 = zext <8 x i8> %v8 to <8 x i32>
  %v10 = sext <8 x i32> %v9 to <8 x i64>
  %v11 = bitcast <8 x i1> splat (i1 true) to i8
  %v12 = zext i8 %v11 to i64
  call void @add.all.int32(ptr %p1, <8 x i64> %v10, <8 x i32> splat (i32 1), i64 %v12)
  br label %done5
slow4:
  %v13 = trunc i64 %left to i32
  %v14 = insertelement <8 x i32> poison, i32 %v13, i64 0
  %v15 = shufflevector <8 x i32> %v14, <8 x i32> poison, <8 x i32> zeroinitializer
  %v16 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v15
  %v17 = sext i32 %v1 to i64
  %v18 = getelementptr i8, ptr %p0, i64 %v17
  %v19 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr align 1 %v18, <8 x i1> %v16, <8 x i8> zeroinitializer)
  %v20 = freeze <8 x i8> %v19
  %v21 = zext <8 x i8> %v20 to <8 x i32>
  %v22 = sext <8 x i32> %v21 to <8 x i64>
  %v23 = bitcast <8 x i1> %v16 to i8
  %v24 = zext i8 %v23 to i64
  call void @add.all.int32(ptr %p1, <8 x i64> %v22, <8 x i32> splat (i32 1), i64 %v24)
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
