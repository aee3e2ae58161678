define internal void @jwarp_halves.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
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
  %v12 = getelementptr half, ptr %p0, i64 %v11
  call void @llvm.masked.store.v8f16.p0(<8 x half> zeroinitializer, ptr align 2 %v12, <8 x i1> %v5)
  br label %filled10
filled10:
  %v13 = sext i32 %v6 to i64
  %v14 = getelementptr half, ptr %p0, i64 %v13
  %v15 = call <8 x half> @llvm.masked.load.v8f16.p0(ptr align 2 %v14, <8 x i1> %v5, <8 x half> zeroinitializer)
  %v16 = freeze <8 x half> %v15
  %v17 = fpext <8 x half> %v16 to <8 x float>
  %v18 = fmul contract <8 x float> %v17, %v17
  %v19 = fptrunc <8 x float> %v18 to <8 x half>
  %v20 = fpext <8 x half> %v19 to <8 x float>
  %v21 = bitcast <8 x float> %v20 to <8 x i32>
  %v22 = lshr <8 x i32> %v21, splat (i32 16)
  %v23 = and <8 x i32> %v22, splat (i32 1)
  %v24 = add <8 x i32> %v21, splat (i32 32767)
  %v25 = add <8 x i32> %v24, %v23
  %v26 = lshr <8 x i32> %v25, splat (i32 16)
  %v27 = or <8 x i32> %v22, splat (i32 64)
  %v28 = fcmp uno <8 x float> %v20, %v20
  %v29 = select <8 x i1> %v28, <8 x i32> %v27, <8 x i32> %v26
  %v30 = trunc <8 x i32> %v29 to <8 x i16>
  %v31 = getelementptr i16, ptr %p1, i64 %v13
  call void @llvm.masked.store.v8i16.p0(<8 x i16> %v30, ptr align 2 %v31, <8 x i1> %v5)
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
