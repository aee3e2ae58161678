define internal void @jwarp_transpose.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %symbols, i64 0
  %v2 = load i64, ptr %v1, align 8, !invariant.load !0
  %v3 = urem i64 %row.begin, %v2
  %v4 = udiv i64 %row.begin, %v2
  %v17 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v18 = load i64, ptr %v17, align 8, !invariant.load !0
  %v23 = getelementptr inbounds i64, ptr %symbols, i64 7
  %v24 = load i64, ptr %v23, align 8, !invariant.load !0
  %v29 = mul i64 1, %v24
  %v30 = mul i64 %v29, 1
  %v31 = mul i64 %v30, 0
  %v32 = mul i64 %v30, 1
  %v33 = mul i64 %v30, 2
  %v34 = mul i64 %v30, 3
  %v35 = mul i64 %v30, 4
  %v70 = insertelement <8 x i64> poison, i64 %v24, i64 0
  %v71 = shufflevector <8 x i64> %v70, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  %row.0 = phi i64 [%v3, %entry], [%v8, %row.latch]
  %v5 = trunc i64 %row.0 to i32
  %v6 = add i64 %row.0, 1
  %v7 = icmp eq i64 %v6, %v2
  %v8 = select i1 %v7, i64 0, i64 %v6
  %v9 = zext i1 %v7 to i64
  %v15 = sext i32 %v5 to i64
  %v19 = mul i64 %v15, %v18
  %v68 = insertelement <8 x i64> poison, i64 %v15, i64 0
  %v69 = shufflevector <8 x i64> %v68, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %col.head
col.head:
  %col = phi i64 [%col.begin, %row.start], [%col.next, %col.latch]
  %left = sub i64 %col.end, %col
  %col.more = icmp sge i64 %left, 1
  br i1 %col.more, label %col.body, label %row.latch
col.body:
  %v10 = trunc i64 %col to i32
  %v11 = icmp sge i64 %left, 8
  br i1 %v11, label %fast12, label %slow13
fast12:
  %v16 = sext i32 %v10 to i64
  %v20 = add i64 %v19, %v16
  %v21 = getelementptr float, ptr %p0, i64 %v20
  %v22 = load <8 x float>, ptr %v21, align 4
  %v25 = mul i64 %v16, %v24
  %v26 = add i64 %v25, %v15
  %v27 = mul i64 %v26, 1
  %v28 = getelementptr float, ptr %p1, i64 %v27
  %v36 = extractelement <8 x float> %v22, i64 0
  store float %v36, ptr %v28, align 4
  %v37 = extractelement <8 x float> %v22, i64 1
  %v38 = getelementptr float, ptr %v28, i64 %v32
  store float %v37, ptr %v38, align 4
  %v39 = extractelement <8 x float> %v22, i64 2
  %v40 = getelementptr float, ptr %v28, i64 %v33
  store float %v39, ptr %v40, align 4
  %v41 = extractelement <8 x float> %v22, i64 3
  %v42 = getelementptr float, ptr %v28, i64 %v34
  store float %v41, ptr %v42, align 4
  %v43 = extractelement <8 x float> %v22, i64 4
  %v44 = getelementptr float, ptr %v28, i64 %v35
  store float %v43, ptr %v44, align 4
  %v45 = extractelement <8 x float> %v22, i64 5
  %v46 = getelementptr float, ptr %v44, i64 %v32
  store float %v45, ptr %v46, align 4
  %v47 = extractelement <8 x float> %v22, i64 6
  %v48 = getelementptr float, ptr %v44, i64 %v33
  store float %v47, ptr %v48, align 4
  %v49 = extractelement <8 x float> %v22, i64 7
  %v50 = getelementptr float, ptr %v44, i64 %v34
  store float %v49, ptr %v50, align 4
  br label %done14
slow13:
  %v51 = trunc i64 %left to i32
  %v52 = insertelement <8 x i32> poison, i32 %v51, i64 0
  %v53 = shufflevector <8 x i32> %v52, <8 x i32> poison, <8 x i32> zeroinitializer
  %v54 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v53
  %v55 = sext i32 %v10 to i64
  %v56 = add i64 %v19, %v55
  %v57 = getelementptr float, ptr %p0, i64 %v56
  %v58 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v57, <8 x i1> %v54, <8 x float> zeroinitializer)
  %v59 = freeze <8 x float> %v58
  %v60 = mul i64 %v55, %v24
  %v61 = add i64 %v60, %v15
  %v62 = mul i64 %v61, 1
  %v63 = getelementptr float, ptr %p1, i64 %v62
  %v64 = insertelement <8 x i32> poison, i32 %v10, i64 0
  %v65 = shufflevector <8 x i32> %v64, <8 x i32> poison, <8 x i32> zeroinitializer
  %v66 = add <8 x i32> %v65, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v67 = sext <8 x i32> %v66 to <8 x i64>
  %v72 = mul <8 x i64> %v67, %v71
  %v73 = add <8 x i64> %v72, %v69
  %v74 = mul <8 x i64> %v73, splat (i64 1)
  %v75 = getelementptr float, ptr %p1, <8 x i64> %v74
  call void @llvm.masked.scatter.v8f32.v8p0(<8 x float> %v59, <8 x ptr> align 4 %v75, <8 x i1> %v54)
  br label %done14
done14:
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
