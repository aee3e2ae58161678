define internal void @jwarp_first_negative.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v9 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v10 = load i64, ptr %v9, align 8, !invariant.load !0
  %v11 = trunc i64 %v10 to i32
  %v38 = insertelement <8 x i64> poison, i64 %v10, i64 0
  %v39 = shufflevector <8 x i64> %v38, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v7 = sext i32 %v6 to i64
  %v8 = getelementptr i32, ptr %p1, i64 %v7
  call void @llvm.masked.store.v8i32.p0(<8 x i32> splat (i32 -1), ptr align 4 %v8, <8 x i1> %v5)
  br label %loop12
loop12:
  br label %loop.head13
loop.head13:
  %v20 = phi <8 x i1> [splat (i1 false), %loop12], [%next17, %loop.latch16]
  %v21 = phi i32 [0, %loop12], [%next18, %loop.latch16]
  %v22 = phi <8 x i1> [%v5, %loop12], [%mask19, %loop.latch16]
  %v23 = xor <8 x i1> %v20, splat (i1 true)
  %v24 = icmp slt i32 %v21, %v11
  %v25 = insertelement <8 x i1> poison, i1 %v24, i64 0
  %v26 = shufflevector <8 x i1> %v25, <8 x i1> poison, <8 x i32> zeroinitializer
  %v27 = and <8 x i1> %v23, %v26
  %v28 = and <8 x i1> %v22, %v27
  %v29 = bitcast <8 x i1> %v28 to i8
  %v30 = icmp ne i8 %v29, 0
  br i1 %v30, label %loop.body14, label %loop.done15
loop.body14:
  %v31 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v32 = shufflevector <8 x i32> %v31, <8 x i32> poison, <8 x i32> zeroinitializer
  %v33 = add <8 x i32> %v32, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v34 = sext <8 x i32> %v33 to <8 x i64>
  %v35 = sext i32 %v21 to i64
  %v36 = insertelement <8 x i64> poison, i64 %v35, i64 0
  %v37 = shufflevector <8 x i64> %v36, <8 x i64> poison, <8 x i32> zeroinitializer
  %v40 = mul <8 x i64> %v34, %v39
  %v41 = add <8 x i64> %v40, %v37
  %v42 = getelementptr float, ptr %p0, <8 x i64> %v41
  %v43 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v42, <8 x i1> %v28, <8 x float> zeroinitializer)
  %v44 = freeze <8 x float> %v43
  %v45 = fcmp olt <8 x float> %v44, splat (float 0x0000000000000000)
  %v46 = and <8 x i1> %v28, %v45
  %v47 = insertelement <8 x i32> poison, i32 %v21, i64 0
  %v48 = shufflevector <8 x i32> %v47, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v48, ptr align 4 %v8, <8 x i1> %v46)
  %v49 = add i32 %v21, 1
  %v50 = select <8 x i1> %v28, <8 x i1> %v45, <8 x i1> %v20
  br label %loop.latch16
loop.latch16:
  %next17 = bitcast <8 x i1> %v50 to <8 x i1>
  %next18 = bitcast i32 %v49 to i32
  %mask19 = bitcast <8 x i1> %v28 to <8 x i1>
  br label %loop.head13
loop.done15:
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
