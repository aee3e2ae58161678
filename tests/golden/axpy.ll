define internal void @jwarp_axpy.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v12 = load float, ptr %p0, align 4
  %v16 = insertelement <8 x float> poison, float %v12, i64 0
  %v17 = shufflevector <8 x float> %v16, <8 x float> poison, <8 x i32> zeroinitializer
  %v32 = load float, ptr %p0, align 4
  %v37 = insertelement <8 x float> poison, float %v32, i64 0
  %v38 = shufflevector <8 x float> %v37, <8 x float> poison, <8 x i32> zeroinitializer
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
  %v6 = and i64 %fill, 4
  %v7 = icmp ne i64 %v6, 0
  br i1 %v7, label %fill8, label %filled9
fill8:
  %v10 = sext i32 %v1 to i64
  %v11 = getelementptr float, ptr %p2, i64 %v10
  store <8 x float> zeroinitializer, ptr %v11, align 4
  br label %filled9
filled9:
  %v13 = sext i32 %v1 to i64
  %v14 = getelementptr float, ptr %p1, i64 %v13
  %v15 = load <8 x float>, ptr %v14, align 4
  %v18 = fmul contract <8 x float> %v17, %v15
  %v19 = getelementptr float, ptr %p2, i64 %v13
  %v20 = load <8 x float>, ptr %v19, align 4
  %v21 = fadd contract <8 x float> %v18, %v20
  store <8 x float> %v21, ptr %v19, align 4
  br label %done5
slow4:
  %v22 = trunc i64 %left to i32
  %v23 = insertelement <8 x i32> poison, i32 %v22, i64 0
  %v24 = shufflevector <8 x i32> %v23, <8 x i32> poison, <8 x i32> zeroinitializer
  %v25 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v24
  %v26 = and i64 %fill, 4
  %v27 = icmp ne i64 %v26, 0
  br i1 %v27, label %fill28, label %filled29
fill28:
  %v30 = sext i32 %v1 to i64
  %v31 = getelementptr float, ptr %p2, i64 %v30
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v31, <8 x i1> %v25)
  br label %filled29
filled29:
  %v33 = sext i32 %v1 to i64
  %v34 = getelementptr float, ptr %p1, i64 %v33
  %v35 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v34, <8 x i1> %v25, <8 x float> zeroinitializer)
  %v36 = freeze <8 x float> %v35
  %v39 = fmul contract <8 x float> %v38, %v36
  %v40 = getelementptr float, ptr %p2, i64 %v33
  %v41 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v40, <8 x i1> %v25, <8 x float> zeroinitializer)
  %v42 = freeze <8 x float> %v41
  %v43 = fadd contract <8 x float> %v39, %v42
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v43, ptr align 4 %v40, <8 x i1> %v25)
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
