define internal void @jwarp_row_sums.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v7 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v8 = load i64, ptr %v7, align 8, !invariant.load !0
  %v9 = trunc i64 %v8 to i32
  %v29 = insertelement <8 x i64> poison, i64 %v8, i64 0
  %v30 = shufflevector <8 x i64> %v29, <8 x i64> poison, <8 x i32> zeroinitializer
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
  br label %loop10
loop10:
  br label %loop.head11
loop.head11:
  %i14 = phi i32 [0, %loop10], [%i15, %loop.latch17]
  %v20 = phi <8 x float> [splat (float 0x0000000000000000), %loop10], [%next18, %loop.latch17]
  %v21 = icmp slt i32 %i14, %v9
  br i1 %v21, label %loop.body12, label %loop.done13
loop.body12:
  %v22 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v23 = shufflevector <8 x i32> %v22, <8 x i32> poison, <8 x i32> zeroinitializer
  %v24 = add <8 x i32> %v23, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v25 = sext <8 x i32> %v24 to <8 x i64>
  %v26 = sext i32 %i14 to i64
  %v27 = insertelement <8 x i64> poison, i64 %v26, i64 0
  %v28 = shufflevector <8 x i64> %v27, <8 x i64> poison, <8 x i32> zeroinitializer
  %v31 = mul <8 x i64> %v25, %v30
  %v32 = add <8 x i64> %v31, %v28
  %v33 = getelementptr float, ptr %p0, <8 x i64> %v32
  %v34 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v33, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v35 = freeze <8 x float> %v34
  %v36 = fadd contract <8 x float> %v20, %v35
  %i15 = add i32 %i14, 1
  br label %loop.latch17
loop.latch17:
  %next18 = bitcast <8 x float> %v36 to <8 x float>
  br label %loop.head11
loop.done13:
  %v37 = sext i32 %v6 to i64
  %v38 = getelementptr float, ptr %p1, i64 %v37
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v20, ptr align 4 %v38, <8 x i1> %v5)
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
