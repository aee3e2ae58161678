define internal void @jwarp_collatz.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
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
  %v12 = getelementptr i32, ptr %p0, i64 %v11
  call void @llvm.masked.store.v8i32.p0(<8 x i32> zeroinitializer, ptr align 4 %v12, <8 x i1> %v5)
  br label %filled10
filled10:
  %v13 = sext i32 %v6 to i64
  %v14 = getelementptr i32, ptr %p0, i64 %v13
  %v15 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v14, <8 x i1> %v5, <8 x i32> zeroinitializer)
  br label %loop16
loop16:
  br label %loop.head17
loop.head17:
  %v25 = phi i32 [0, %loop16], [%next21, %loop.latch20]
  %v26 = phi <8 x i32> [%v15, %loop16], [%next22, %loop.latch20]
  %v27 = phi <8 x i32> [splat (i32 0), %loop16], [%kept23, %loop.latch20]
  %v28 = phi <8 x i1> [%v5, %loop16], [%mask24, %loop.latch20]
  %v29 = icmp sgt <8 x i32> %v26, splat (i32 1)
  %v30 = and <8 x i1> %v28, %v29
  %v31 = bitcast <8 x i1> %v30 to i8
  %v32 = icmp ne i8 %v31, 0
  br i1 %v32, label %loop.body18, label %loop.done19
loop.body18:
  %v33 = sdiv <8 x i32> %v26, splat (i32 2)
  %v34 = mul <8 x i32> %v33, splat (i32 2)
  %v35 = sub <8 x i32> %v26, %v34
  %v36 = icmp eq <8 x i32> %v35, splat (i32 0)
  %v37 = sdiv <8 x i32> %v26, splat (i32 2)
  %v38 = mul <8 x i32> %v37, splat (i32 2)
  %v39 = sub <8 x i32> %v26, %v38
  %v40 = icmp ne <8 x i32> %v39, splat (i32 0)
  %v41 = xor <8 x i32> %v39, splat (i32 2)
  %v42 = icmp slt <8 x i32> %v41, splat (i32 0)
  %v43 = sub <8 x i32> %v37, splat (i32 1)
  %v44 = and <8 x i1> %v40, %v42
  %v45 = select <8 x i1> %v44, <8 x i32> %v43, <8 x i32> %v37
  %v46 = mul <8 x i32> splat (i32 3), %v26
  %v47 = add <8 x i32> %v46, splat (i32 1)
  %v48 = select <8 x i1> %v36, <8 x i32> %v45, <8 x i32> %v47
  %v49 = add i32 %v25, 1
  %v50 = select <8 x i1> %v30, <8 x i32> %v48, <8 x i32> %v26
  %v51 = insertelement <8 x i32> poison, i32 %v49, i64 0
  %v52 = shufflevector <8 x i32> %v51, <8 x i32> poison, <8 x i32> zeroinitializer
  %v53 = select <8 x i1> %v30, <8 x i32> %v52, <8 x i32> %v27
  br label %loop.latch20
loop.latch20:
  %next21 = bitcast i32 %v49 to i32
  %next22 = bitcast <8 x i32> %v50 to <8 x i32>
  %kept23 = bitcast <8 x i32> %v53 to <8 x i32>
  %mask24 = bitcast <8 x i1> %v30 to <8 x i1>
  br label %loop.head17
loop.done19:
  %v54 = sext i32 %v6 to i64
  %v55 = getelementptr i32, ptr %p1, i64 %v54
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v27, ptr align 4 %v55, <8 x i1> %v5)
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
