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
  %v16 = freeze <8 x i32> %v15
  br label %loop17
loop17:
  br label %loop.head18
loop.head18:
  %v26 = phi i32 [0, %loop17], [%next22, %loop.latch21]
  %v27 = phi <8 x i32> [%v16, %loop17], [%next23, %loop.latch21]
  %v28 = phi <8 x i32> [splat (i32 0), %loop17], [%kept24, %loop.latch21]
  %v29 = phi <8 x i1> [%v5, %loop17], [%mask25, %loop.latch21]
  %v30 = icmp sgt <8 x i32> %v27, splat (i32 1)
  %v31 = and <8 x i1> %v29, %v30
  %v32 = bitcast <8 x i1> %v31 to i8
  %v33 = icmp ne i8 %v32, 0
  br i1 %v33, label %loop.body19, label %loop.done20
loop.body19:
  %v34 = sdiv <8 x i32> %v27, splat (i32 2)
  %v35 = mul <8 x i32> %v34, splat (i32 2)
  %v36 = sub <8 x i32> %v27, %v35
  %v37 = icmp eq <8 x i32> %v36, splat (i32 0)
  %v38 = icmp ne <8 x i32> %v36, splat (i32 0)
  %v39 = xor <8 x i32> %v36, splat (i32 2)
  %v40 = icmp slt <8 x i32> %v39, splat (i32 0)
  %v41 = sub <8 x i32> %v34, splat (i32 1)
  %v42 = and <8 x i1> %v38, %v40
  %v43 = select <8 x i1> %v42, <8 x i32> %v41, <8 x i32> %v34
  %v44 = mul <8 x i32> splat (i32 3), %v27
  %v45 = add <8 x i32> %v44, splat (i32 1)
  %v46 = select <8 x i1> %v37, <8 x i32> %v43, <8 x i32> %v45
  %v47 = add i32 %v26, 1
  %v48 = select <8 x i1> %v31, <8 x i32> %v46, <8 x i32> %v27
  %v49 = insertelement <8 x i32> poison, i32 %v47, i64 0
  %v50 = shufflevector <8 x i32> %v49, <8 x i32> poison, <8 x i32> zeroinitializer
  %v51 = select <8 x i1> %v31, <8 x i32> %v50, <8 x i32> %v28
  br label %loop.latch21
loop.latch21:
  %next22 = freeze i32 %v47
  %next23 = freeze <8 x i32> %v48
  %kept24 = freeze <8 x i32> %v51
  %mask25 = freeze <8 x i1> %v31
  br label %loop.head18
loop.done20:
  %v52 = getelementptr i32, ptr %p1, i64 %v13
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v28, ptr align 4 %v52, <8 x i1> %v5)
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
