define internal void @jwarp_collatz.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
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
  %v2 = call i64 @llvm.smin.i64(i64 %left, i64 8)
  %v3 = trunc i64 %v2 to i32
  %v4 = insertelement <8 x i32> poison, i32 %v3, i64 0
  %v5 = shufflevector <8 x i32> %v4, <8 x i32> poison, <8 x i32> zeroinitializer
  %v6 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v5
  %v7 = sext i32 %v1 to i64
  %v8 = getelementptr i32, ptr %p0, i64 %v7
  %v9 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v8, <8 x i1> %v6, <8 x i32> zeroinitializer)
  %v10 = freeze <8 x i32> %v9
  br label %loop11
loop11:
  br label %loop.head12
loop.head12:
  %v16 = phi i32 [0, %loop11], [%v37, %loop.latch15]
  %v17 = phi <8 x i32> [%v10, %loop11], [%v38, %loop.latch15]
  %v18 = phi <8 x i32> [splat (i32 0), %loop11], [%v41, %loop.latch15]
  %v19 = phi <8 x i1> [%v6, %loop11], [%v21, %loop.latch15]
  %v20 = icmp sgt <8 x i32> %v17, splat (i32 1)
  %v21 = and <8 x i1> %v19, %v20
  %v22 = bitcast <8 x i1> %v21 to i8
  %v23 = icmp ne i8 %v22, 0
  br i1 %v23, label %loop.body13, label %loop.done14
loop.body13:
  %v24 = sdiv <8 x i32> %v17, splat (i32 2)
  %v25 = mul <8 x i32> %v24, splat (i32 2)
  %v26 = sub <8 x i32> %v17, %v25
  %v27 = icmp eq <8 x i32> %v26, splat (i32 0)
  %v28 = icmp ne <8 x i32> %v26, splat (i32 0)
  %v29 = xor <8 x i32> %v26, splat (i32 2)
  %v30 = icmp slt <8 x i32> %v29, splat (i32 0)
  %v31 = sub <8 x i32> %v24, splat (i32 1)
  %v32 = and <8 x i1> %v28, %v30
  %v33 = select <8 x i1> %v32, <8 x i32> %v31, <8 x i32> %v24
  %v34 = mul <8 x i32> splat (i32 3), %v17
  %v35 = add <8 x i32> %v34, splat (i32 1)
  %v36 = select <8 x i1> %v27, <8 x i32> %v33, <8 x i32> %v35
  %v37 = add i32 %v16, 1
  %v38 = select <8 x i1> %v21, <8 x i32> %v36, <8 x i32> %v17
  %v39 = insertelement <8 x i32> poison, i32 %v37, i64 0
  %v40 = shufflevector <8 x i32> %v39, <8 x i32> poison, <8 x i32> zeroinitializer
  %v41 = select <8 x i1> %v21, <8 x i32> %v40, <8 x i32> %v18
  br label %loop.latch15
loop.latch15:
  br label %loop.head12
loop.done14:
  %v42 = getelementptr i32, ptr %p1, i64 %v7
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v18, ptr align 4 %v42, <8 x i1> %v6)
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
