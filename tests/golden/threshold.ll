define internal void @jwarp_threshold.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
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
  %v6 = and i64 %fill, 2
  %v7 = icmp ne i64 %v6, 0
  br i1 %v7, label %fill8, label %filled9
fill8:
  %v10 = sext i32 %v1 to i64
  %v11 = zext <8 x i1> splat (i1 false) to <8 x i8>
  %v12 = getelementptr i8, ptr %p1, i64 %v10
  store <8 x i8> %v11, ptr %v12, align 1
  br label %filled9
filled9:
  %v13 = sext i32 %v1 to i64
  %v14 = getelementptr float, ptr %p0, i64 %v13
  %v15 = load <8 x float>, ptr %v14, align 4
  %v16 = fcmp ogt <8 x float> %v15, splat (float 0x3FE0000000000000)
  %v17 = xor <8 x i1> %v16, splat (i1 true)
  %v18 = bitcast <8 x i1> %v17 to i8
  %v19 = icmp eq i8 %v18, -1
  br i1 %v19, label %fast20, label %slow21
fast20:
  %v23 = getelementptr i8, ptr %p1, i64 %v13
  %v24 = load <8 x i8>, ptr %v23, align 1
  %v25 = icmp ne <8 x i8> %v24, splat (i8 0)
  br label %done22
slow21:
  %v26 = getelementptr i8, ptr %p1, i64 %v13
  %v27 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr align 1 %v26, <8 x i1> %v17, <8 x i8> zeroinitializer)
  %v28 = freeze <8 x i8> %v27
  %v29 = icmp ne <8 x i8> %v28, splat (i8 0)
  br label %done22
done22:
  %v30 = phi <8 x i1> [%v25, %fast20], [%v29, %slow21]
  %v31 = select <8 x i1> %v17, <8 x i1> %v30, <8 x i1> splat (i1 true)
  %v32 = zext <8 x i1> %v31 to <8 x i8>
  %v33 = getelementptr i8, ptr %p1, i64 %v13
  store <8 x i8> %v32, ptr %v33, align 1
  br label %done5
slow4:
  %v34 = trunc i64 %left to i32
  %v35 = insertelement <8 x i32> poison, i32 %v34, i64 0
  %v36 = shufflevector <8 x i32> %v35, <8 x i32> poison, <8 x i32> zeroinitializer
  %v37 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v36
  %v38 = and i64 %fill, 2
  %v39 = icmp ne i64 %v38, 0
  br i1 %v39, label %fill40, label %filled41
fill40:
  %v42 = sext i32 %v1 to i64
  %v43 = zext <8 x i1> splat (i1 false) to <8 x i8>
  %v44 = getelementptr i8, ptr %p1, i64 %v42
  call void @llvm.masked.store.v8i8.p0(<8 x i8> %v43, ptr align 1 %v44, <8 x i1> %v37)
  br label %filled41
filled41:
  %v45 = sext i32 %v1 to i64
  %v46 = getelementptr float, ptr %p0, i64 %v45
  %v47 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v46, <8 x i1> %v37, <8 x float> zeroinitializer)
  %v48 = freeze <8 x float> %v47
  %v49 = fcmp ogt <8 x float> %v48, splat (float 0x3FE0000000000000)
  %v50 = xor <8 x i1> %v49, splat (i1 true)
  %v51 = and <8 x i1> %v37, %v50
  %v52 = getelementptr i8, ptr %p1, i64 %v45
  %v53 = call <8 x i8> @llvm.masked.load.v8i8.p0(ptr align 1 %v52, <8 x i1> %v51, <8 x i8> zeroinitializer)
  %v54 = freeze <8 x i8> %v53
  %v55 = icmp ne <8 x i8> %v54, splat (i8 0)
  %v56 = select <8 x i1> %v51, <8 x i1> %v55, <8 x i1> splat (i1 true)
  %v57 = zext <8 x i1> %v56 to <8 x i8>
  call void @llvm.masked.store.v8i8.p0(<8 x i8> %v57, ptr align 1 %v52, <8 x i1> %v37)
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
