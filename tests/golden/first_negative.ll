define internal void @jwarp_first_negative.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v9 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v10 = load i64, ptr %v9, align 8, !invariant.load !0
  %v11 = trunc i64 %v10 to i32
  %v36 = mul i64 1, %v10
  %v37 = mul i64 %v36, 1
  %v38 = mul i64 %v37, 0
  %v39 = mul i64 %v37, 1
  %v40 = mul i64 %v37, 2
  %v41 = mul i64 %v37, 3
  %v42 = mul i64 %v37, 4
  %v78 = insertelement <8 x i64> poison, i64 %v10, i64 0
  %v79 = shufflevector <8 x i64> %v78, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v31 = sext i32 %v21 to i64
  %v32 = mul i64 %v7, %v10
  %v33 = add i64 %v32, %v31
  %v34 = mul i64 %v33, 1
  %v35 = getelementptr float, ptr %p0, i64 %v34
  %v43 = bitcast <8 x i1> %v28 to i8
  %v44 = icmp eq i8 %v43, -1
  br i1 %v44, label %fast45, label %slow46
fast45:
  %v48 = load float, ptr %v35, align 4
  %v49 = insertelement <8 x float> poison, float %v48, i64 0
  %v50 = getelementptr float, ptr %v35, i64 %v39
  %v51 = load float, ptr %v50, align 4
  %v52 = insertelement <8 x float> %v49, float %v51, i64 1
  %v53 = getelementptr float, ptr %v35, i64 %v40
  %v54 = load float, ptr %v53, align 4
  %v55 = insertelement <8 x float> %v52, float %v54, i64 2
  %v56 = getelementptr float, ptr %v35, i64 %v41
  %v57 = load float, ptr %v56, align 4
  %v58 = insertelement <8 x float> %v55, float %v57, i64 3
  %v59 = getelementptr float, ptr %v35, i64 %v42
  %v60 = load float, ptr %v59, align 4
  %v61 = insertelement <8 x float> %v58, float %v60, i64 4
  %v62 = getelementptr float, ptr %v59, i64 %v39
  %v63 = load float, ptr %v62, align 4
  %v64 = insertelement <8 x float> %v61, float %v63, i64 5
  %v65 = getelementptr float, ptr %v59, i64 %v40
  %v66 = load float, ptr %v65, align 4
  %v67 = insertelement <8 x float> %v64, float %v66, i64 6
  %v68 = getelementptr float, ptr %v59, i64 %v41
  %v69 = load float, ptr %v68, align 4
  %v70 = insertelement <8 x float> %v67, float %v69, i64 7
  br label %done47
slow46:
  %v71 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v72 = shufflevector <8 x i32> %v71, <8 x i32> poison, <8 x i32> zeroinitializer
  %v73 = add <8 x i32> %v72, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v74 = sext <8 x i32> %v73 to <8 x i64>
  %v75 = sext i32 %v21 to i64
  %v76 = insertelement <8 x i64> poison, i64 %v75, i64 0
  %v77 = shufflevector <8 x i64> %v76, <8 x i64> poison, <8 x i32> zeroinitializer
  %v80 = mul <8 x i64> %v74, %v79
  %v81 = add <8 x i64> %v80, %v77
  %v82 = mul <8 x i64> %v81, splat (i64 1)
  %v83 = getelementptr float, ptr %p0, <8 x i64> %v82
  %v84 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v83, <8 x i1> %v28, <8 x float> zeroinitializer)
  %v85 = freeze <8 x float> %v84
  br label %done47
done47:
  %v86 = phi <8 x float> [%v70, %fast45], [%v85, %slow46]
  %v87 = fcmp olt <8 x float> %v86, splat (float 0x0000000000000000)
  %v88 = and <8 x i1> %v28, %v87
  %v89 = insertelement <8 x i32> poison, i32 %v21, i64 0
  %v90 = shufflevector <8 x i32> %v89, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v90, ptr align 4 %v8, <8 x i1> %v88)
  %v91 = add i32 %v21, 1
  %v92 = select <8 x i1> %v28, <8 x i1> %v87, <8 x i1> %v20
  br label %loop.latch16
loop.latch16:
  %next17 = freeze <8 x i1> %v92
  %next18 = freeze i32 %v91
  %mask19 = freeze <8 x i1> %v28
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
