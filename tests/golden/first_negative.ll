define internal void @jwarp_first_negative.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v9 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v10 = load i64, ptr %v9, align 8, !invariant.load !0
  %v11 = trunc i64 %v10 to i32
  %v33 = mul i64 1, %v10
  %v34 = mul i64 %v33, 1
  %v35 = mul i64 %v34, 0
  %v36 = mul i64 %v34, 1
  %v37 = mul i64 %v34, 2
  %v38 = mul i64 %v34, 3
  %v39 = mul i64 %v34, 4
  %v41 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v42 = load i64, ptr %v41, align 8, !invariant.load !0
  %v81 = insertelement <8 x i64> poison, i64 %v10, i64 0
  %v82 = shufflevector <8 x i64> %v81, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v8 = getelementptr i32, ptr %p1, i64 %v7
  call void @llvm.masked.store.v8i32.p0(<8 x i32> splat (i32 -1), ptr align 4 %v8, <8 x i1> %v6)
  br label %loop12
loop12:
  br label %loop.head13
loop.head13:
  %v17 = phi <8 x i1> [splat (i1 false), %loop12], [%v102, %loop.latch16]
  %v18 = phi i32 [0, %loop12], [%v101, %loop.latch16]
  %v19 = phi <8 x i1> [%v6, %loop12], [%v25, %loop.latch16]
  %v20 = xor <8 x i1> %v17, splat (i1 true)
  %v21 = icmp slt i32 %v18, %v11
  %v22 = insertelement <8 x i1> poison, i1 %v21, i64 0
  %v23 = shufflevector <8 x i1> %v22, <8 x i1> poison, <8 x i32> zeroinitializer
  %v24 = and <8 x i1> %v20, %v23
  %v25 = and <8 x i1> %v19, %v24
  %v26 = bitcast <8 x i1> %v25 to i8
  %v27 = icmp ne i8 %v26, 0
  br i1 %v27, label %loop.body14, label %loop.done15
loop.body14:
  %v28 = sext i32 %v18 to i64
  %v29 = mul i64 %v7, %v10
  %v30 = add i64 %v29, %v28
  %v31 = mul i64 %v30, 1
  %v32 = getelementptr float, ptr %p0, i64 %v31
  %v40 = add i64 %v7, 7
  %v43 = icmp ult i64 %v7, %v42
  %v44 = icmp ult i64 %v40, %v42
  %v45 = and i1 %v43, %v44
  %v46 = icmp ult i64 %v28, %v10
  %v47 = and i1 %v45, %v46
  br i1 %v47, label %fast48, label %slow49
fast48:
  %v51 = load float, ptr %v32, align 4
  %v52 = insertelement <8 x float> poison, float %v51, i64 0
  %v53 = getelementptr float, ptr %v32, i64 %v36
  %v54 = load float, ptr %v53, align 4
  %v55 = insertelement <8 x float> %v52, float %v54, i64 1
  %v56 = getelementptr float, ptr %v32, i64 %v37
  %v57 = load float, ptr %v56, align 4
  %v58 = insertelement <8 x float> %v55, float %v57, i64 2
  %v59 = getelementptr float, ptr %v32, i64 %v38
  %v60 = load float, ptr %v59, align 4
  %v61 = insertelement <8 x float> %v58, float %v60, i64 3
  %v62 = getelementptr float, ptr %v32, i64 %v39
  %v63 = load float, ptr %v62, align 4
  %v64 = insertelement <8 x float> %v61, float %v63, i64 4
  %v65 = getelementptr float, ptr %v62, i64 %v36
  %v66 = load float, ptr %v65, align 4
  %v67 = insertelement <8 x float> %v64, float %v66, i64 5
  %v68 = getelementptr float, ptr %v62, i64 %v37
  %v69 = load float, ptr %v68, align 4
  %v70 = insertelement <8 x float> %v67, float %v69, i64 6
  %v71 = getelementptr float, ptr %v62, i64 %v38
  %v72 = load float, ptr %v71, align 4
  %v73 = insertelement <8 x float> %v70, float %v72, i64 7
  br label %done50
slow49:
  %v74 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v75 = shufflevector <8 x i32> %v74, <8 x i32> poison, <8 x i32> zeroinitializer
  %v76 = add <8 x i32> %v75, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v77 = sext <8 x i32> %v76 to <8 x i64>
  %v78 = sext i32 %v18 to i64
  %v79 = insertelement <8 x i64> poison, i64 %v78, i64 0
  %v80 = shufflevector <8 x i64> %v79, <8 x i64> poison, <8 x i32> zeroinitializer
  %v83 = mul <8 x i64> %v77, %v82
  %v84 = add <8 x i64> %v83, %v80
  %v85 = mul <8 x i64> %v84, splat (i64 1)
  %v86 = getelementptr float, ptr %p0, <8 x i64> %v85
  %v87 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v86, <8 x i1> %v25, <8 x float> zeroinitializer)
  %v88 = freeze <8 x float> %v87
  br label %done50
done50:
  %v89 = phi <8 x float> [%v73, %fast48], [%v88, %slow49]
  %v90 = fcmp olt <8 x float> %v89, splat (float 0x0000000000000000)
  %v91 = and <8 x i1> %v25, %v90
  %v92 = bitcast <8 x i1> %v91 to i8
  %v93 = icmp eq i8 %v92, -1
  br i1 %v93, label %fast94, label %slow95
fast94:
  %v97 = insertelement <8 x i32> poison, i32 %v18, i64 0
  %v98 = shufflevector <8 x i32> %v97, <8 x i32> poison, <8 x i32> zeroinitializer
  store <8 x i32> %v98, ptr %v8, align 4
  br label %done96
slow95:
  %v99 = insertelement <8 x i32> poison, i32 %v18, i64 0
  %v100 = shufflevector <8 x i32> %v99, <8 x i32> poison, <8 x i32> zeroinitializer
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v100, ptr align 4 %v8, <8 x i1> %v91)
  br label %done96
done96:
  %v101 = add i32 %v18, 1
  %v102 = select <8 x i1> %v25, <8 x i1> %v90, <8 x i1> %v17
  br label %loop.latch16
loop.latch16:
  br label %loop.head13
loop.done15:
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
