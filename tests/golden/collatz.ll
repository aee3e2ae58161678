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
  %v22 = phi i32 [0, %loop17], [%v43, %loop.latch21]
  %v23 = phi <8 x i32> [%v16, %loop17], [%v44, %loop.latch21]
  %v24 = phi <8 x i32> [splat (i32 0), %loop17], [%v47, %loop.latch21]
  %v25 = phi <8 x i1> [%v5, %loop17], [%v27, %loop.latch21]
  %v26 = icmp sgt <8 x i32> %v23, splat (i32 1)
  %v27 = and <8 x i1> %v25, %v26
  %v28 = bitcast <8 x i1> %v27 to i8
  %v29 = icmp ne i8 %v28, 0
  br i1 %v29, label %loop.body19, label %loop.done20
loop.body19:
  %v30 = sdiv <8 x i32> %v23, splat (i32 2)
  %v31 = mul <8 x i32> %v30, splat (i32 2)
  %v32 = sub <8 x i32> %v23, %v31
  %v33 = icmp eq <8 x i32> %v32, splat (i32 0)
  %v34 = icmp ne <8 x i32> %v32, splat (i32 0)
  %v35 = xor <8 x i32> %v32, splat (i32 2)
  %v36 = icmp slt <8 x i32> %v35, splat (i32 0)
  %v37 = sub <8 x i32> %v30, splat (i32 1)
  %v38 = and <8 x i1> %v34, %v36
  %v39 = select <8 x i1> %v38, <8 x i32> %v37, <8 x i32> %v30
  %v40 = mul <8 x i32> splat (i32 3), %v23
  %v41 = add <8 x i32> %v40, splat (i32 1)
  %v42 = select <8 x i1> %v33, <8 x i32> %v39, <8 x i32> %v41
  %v43 = add i32 %v22, 1
  %v44 = select <8 x i1> %v27, <8 x i32> %v42, <8 x i32> %v23
  %v45 = insertelement <8 x i32> poison, i32 %v43, i64 0
  %v46 = shufflevector <8 x i32> %v45, <8 x i32> poison, <8 x i32> zeroinitializer
  %v47 = select <8 x i1> %v27, <8 x i32> %v46, <8 x i32> %v24
  br label %loop.latch21
loop.latch21:
  br label %loop.head18
loop.done20:
  %v48 = getelementptr i32, ptr %p1, i64 %v13
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v24, ptr align 4 %v48, <8 x i1> %v5)
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
