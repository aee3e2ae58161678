define internal void @jwarp_transpose.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %symbols, i64 0
  %v2 = load i64, ptr %v1, align 8, !invariant.load !0
  %v3 = urem i64 %row.begin, %v2
  %v4 = udiv i64 %row.begin, %v2
  %v22 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v23 = load i64, ptr %v22, align 8, !invariant.load !0
  %v33 = getelementptr inbounds i64, ptr %symbols, i64 7
  %v34 = load i64, ptr %v33, align 8, !invariant.load !0
  %v39 = mul i64 1, %v34
  %v40 = mul i64 %v39, 1
  %v41 = mul i64 %v40, 0
  %v42 = mul i64 %v40, 1
  %v43 = mul i64 %v40, 2
  %v44 = mul i64 %v40, 3
  %v45 = mul i64 %v40, 4
  %v72 = insertelement <8 x i64> poison, i64 %v34, i64 0
  %v73 = shufflevector <8 x i64> %v72, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %row.start
row.start:
  %row = phi i64 [%row.begin, %entry], [%row.next, %row.latch]
  %row.0 = phi i64 [%v3, %entry], [%v8, %row.latch]
  %v5 = trunc i64 %row.0 to i32
  %v6 = add i64 %row.0, 1
  %v7 = icmp eq i64 %v6, %v2
  %v8 = select i1 %v7, i64 0, i64 %v6
  %v9 = zext i1 %v7 to i64
  %v20 = sext i32 %v5 to i64
  %v70 = insertelement <8 x i64> poison, i64 %v20, i64 0
  %v71 = shufflevector <8 x i64> %v70, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %rest.head
rest.head:
  %rest.col = phi i64 [%col.begin, %row.start], [%rest.col.next, %rest.latch]
  %rest.left = sub i64 %col.end, %rest.col
  %rest.more = icmp sge i64 %rest.left, 1
  br i1 %rest.more, label %rest.body, label %row.latch
rest.body:
  %v10 = call i64 @llvm.smin.i64(i64 %rest.left, i64 8)
  %v11 = trunc i64 %v10 to i32
  %v12 = insertelement <8 x i32> poison, i32 %v11, i64 0
  %v13 = shufflevector <8 x i32> %v12, <8 x i32> poison, <8 x i32> zeroinitializer
  %v14 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v13
  %v15 = trunc i64 %rest.col to i32
  %v16 = and i64 %fill, 1
  %v17 = icmp ne i64 %v16, 0
  br i1 %v17, label %fill18, label %filled19
fill18:
  %v21 = sext i32 %v15 to i64
  %v24 = mul i64 %v20, %v23
  %v25 = add i64 %v24, %v21
  %v26 = getelementptr float, ptr %p0, i64 %v25
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v26, <8 x i1> %v14)
  br label %filled19
filled19:
  %v27 = sext i32 %v15 to i64
  %v28 = mul i64 %v20, %v23
  %v29 = add i64 %v28, %v27
  %v30 = getelementptr float, ptr %p0, i64 %v29
  %v31 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v30, <8 x i1> %v14, <8 x float> zeroinitializer)
  %v32 = freeze <8 x float> %v31
  %v35 = mul i64 %v27, %v34
  %v36 = add i64 %v35, %v20
  %v37 = mul i64 %v36, 1
  %v38 = getelementptr float, ptr %p1, i64 %v37
  %v46 = bitcast <8 x i1> %v14 to i8
  %v47 = icmp eq i8 %v46, -1
  br i1 %v47, label %fast48, label %slow49
fast48:
  %v51 = extractelement <8 x float> %v32, i64 0
  store float %v51, ptr %v38, align 4
  %v52 = extractelement <8 x float> %v32, i64 1
  %v53 = getelementptr float, ptr %v38, i64 %v42
  store float %v52, ptr %v53, align 4
  %v54 = extractelement <8 x float> %v32, i64 2
  %v55 = getelementptr float, ptr %v38, i64 %v43
  store float %v54, ptr %v55, align 4
  %v56 = extractelement <8 x float> %v32, i64 3
  %v57 = getelementptr float, ptr %v38, i64 %v44
  store float %v56, ptr %v57, align 4
  %v58 = extractelement <8 x float> %v32, i64 4
  %v59 = getelementptr float, ptr %v38, i64 %v45
  store float %v58, ptr %v59, align 4
  %v60 = extractelement <8 x float> %v32, i64 5
  %v61 = getelementptr float, ptr %v59, i64 %v42
  store float %v60, ptr %v61, align 4
  %v62 = extractelement <8 x float> %v32, i64 6
  %v63 = getelementptr float, ptr %v59, i64 %v43
  store float %v62, ptr %v63, align 4
  %v64 = extractelement <8 x float> %v32, i64 7
  %v65 = getelementptr float, ptr %v59, i64 %v44
  store float %v64, ptr %v65, align 4
  br label %done50
slow49:
  %v66 = insertelement <8 x i32> poison, i32 %v15, i64 0
  %v67 = shufflevector <8 x i32> %v66, <8 x i32> poison, <8 x i32> zeroinitializer
  %v68 = add <8 x i32> %v67, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v69 = sext <8 x i32> %v68 to <8 x i64>
  %v74 = mul <8 x i64> %v69, %v73
  %v75 = add <8 x i64> %v74, %v71
  %v76 = mul <8 x i64> %v75, splat (i64 1)
  %v77 = getelementptr float, ptr %p1, <8 x i64> %v76
  call void @llvm.masked.scatter.v8f32.v8p0(<8 x float> %v32, <8 x ptr> align 4 %v77, <8 x i1> %v14)
  br label %done50
done50:
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
