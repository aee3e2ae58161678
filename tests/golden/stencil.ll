define internal void @jwarp_stencil.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v23 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v24 = load i64, ptr %v23, align 8, !invariant.load !0
  %v25 = trunc i64 %v24 to i32
  %v26 = sub i32 %v25, 1
  %v27 = insertelement <8 x i32> poison, i32 %v26, i64 0
  %v28 = shufflevector <8 x i32> %v27, <8 x i32> poison, <8 x i32> zeroinitializer
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
  %v7 = and i64 %fill, 2
  %v8 = icmp ne i64 %v7, 0
  br i1 %v8, label %fill9, label %filled10
fill9:
  %v11 = sext i32 %v1 to i64
  %v12 = bitcast <8 x i1> %v6 to i8
  %v13 = icmp eq i8 %v12, -1
  br i1 %v13, label %fast14, label %slow15
fast14:
  %v17 = getelementptr float, ptr %p1, i64 %v11
  store <8 x float> zeroinitializer, ptr %v17, align 4
  br label %done16
slow15:
  %v18 = getelementptr float, ptr %p1, i64 %v11
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v18, <8 x i1> %v6)
  br label %done16
done16:
  br label %filled10
filled10:
  %v19 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v20 = shufflevector <8 x i32> %v19, <8 x i32> poison, <8 x i32> zeroinitializer
  %v21 = add <8 x i32> %v20, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v22 = icmp sgt <8 x i32> %v21, splat (i32 0)
  %v29 = icmp slt <8 x i32> %v21, %v28
  %v30 = and <8 x i1> %v22, %v29
  %v31 = and <8 x i1> %v6, %v30
  %v32 = bitcast <8 x i1> %v31 to i8
  %v33 = icmp eq i8 %v32, -1
  br i1 %v33, label %fast34, label %slow35
fast34:
  %v37 = add i32 %v1, 1
  %v38 = sext i32 %v37 to i64
  %v39 = getelementptr float, ptr %p0, i64 %v38
  %v40 = load <8 x float>, ptr %v39, align 4
  %v41 = sub i32 %v1, 1
  %v42 = sext i32 %v41 to i64
  %v43 = getelementptr float, ptr %p0, i64 %v42
  %v44 = load <8 x float>, ptr %v43, align 4
  %v45 = fsub contract <8 x float> %v40, %v44
  %v46 = sext i32 %v1 to i64
  %v47 = getelementptr float, ptr %p1, i64 %v46
  store <8 x float> %v45, ptr %v47, align 4
  br label %done36
slow35:
  %v48 = add i32 %v1, 1
  %v49 = sext i32 %v48 to i64
  %v50 = getelementptr float, ptr %p0, i64 %v49
  %v51 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v50, <8 x i1> %v31, <8 x float> zeroinitializer)
  %v52 = freeze <8 x float> %v51
  %v53 = sub i32 %v1, 1
  %v54 = sext i32 %v53 to i64
  %v55 = getelementptr float, ptr %p0, i64 %v54
  %v56 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v55, <8 x i1> %v31, <8 x float> zeroinitializer)
  %v57 = freeze <8 x float> %v56
  %v58 = fsub contract <8 x float> %v52, %v57
  %v59 = sext i32 %v1 to i64
  %v60 = getelementptr float, ptr %p1, i64 %v59
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v58, ptr align 4 %v60, <8 x i1> %v31)
  br label %done36
done36:
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
