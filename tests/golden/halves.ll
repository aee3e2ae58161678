define internal void @jwarp_halves.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
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
  %v7 = getelementptr half, ptr %p0, i64 %v6
  %v8 = load <8 x half>, ptr %v7, align 2
  %v9 = fpext <8 x half> %v8 to <8 x float>
  %v10 = fmul contract <8 x float> %v9, %v9
  %v11 = fptrunc <8 x float> %v10 to <8 x half>
  %v12 = fpext <8 x half> %v11 to <8 x float>
  %v13 = bitcast <8 x float> %v12 to <8 x i32>
  %v14 = lshr <8 x i32> %v13, splat (i32 16)
  %v15 = and <8 x i32> %v14, splat (i32 1)
  %v16 = add <8 x i32> %v13, splat (i32 32767)
  %v17 = add <8 x i32> %v16, %v15
  %v18 = lshr <8 x i32> %v17, splat (i32 16)
  %v19 = or <8 x i32> %v14, splat (i32 64)
  %v20 = fcmp uno <8 x float> %v12, %v12
  %v21 = select <8 x i1> %v20, <8 x i32> %v19, <8 x i32> %v18
  %v22 = trunc <8 x i32> %v21 to <8 x i16>
  %v23 = getelementptr i16, ptr %p1, i64 %v6
  store <8 x i16> %v22, ptr %v23, align 2
  br label %done5
slow4:
  %v24 = trunc i64 %left to i32
  %v25 = insertelement <8 x i32> poison, i32 %v24, i64 0
  %v26 = shufflevector <8 x i32> %v25, <8 x i32> poison, <8 x i32> zeroinitializer
  %v27 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v26
  %v28 = sext i32 %v1 to i64
  %v29 = getelementptr half, ptr %p0, i64 %v28
  %v30 = call <8 x half> @llvm.masked.load.v8f16.p0(ptr align 2 %v29, <8 x i1> %v27, <8 x half> zeroinitializer)
  %v31 = freeze <8 x half> %v30
  %v32 = fpext <8 x half> %v31 to <8 x float>
  %v33 = fmul contract <8 x float> %v32, %v32
  %v34 = fptrunc <8 x float> %v33 to <8 x half>
  %v35 = fpext <8 x half> %v34 to <8 x float>
  %v36 = bitcast <8 x float> %v35 to <8 x i32>
  %v37 = lshr <8 x i32> %v36, splat (i32 16)
  %v38 = and <8 x i32> %v37, splat (i32 1)
  %v39 = add <8 x i32> %v36, splat (i32 32767)
  %v40 = add <8 x i32> %v39, %v38
  %v41 = lshr <8 x i32> %v40, splat (i32 16)
  %v42 = or <8 x i32> %v37, splat (i32 64)
  %v43 = fcmp uno <8 x float> %v35, %v35
  %v44 = select <8 x i1> %v43, <8 x i32> %v42, <8 x i32> %v41
  %v45 = trunc <8 x i32> %v44 to <8 x i16>
  %v46 = getelementptr i16, ptr %p1, i64 %v28
  call void @llvm.masked.store.v8i16.p0(<8 x i16> %v45, ptr align 2 %v46, <8 x i1> %v27)
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
