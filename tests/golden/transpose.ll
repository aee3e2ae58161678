define internal void @jwarp_transpose.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %symbols, i64 0
  %v2 = load i64, ptr %v1, align 8, !invariant.load !0
  %v3 = urem i64 %row.begin, %v2
  %v4 = udiv i64 %row.begin, %v2
  %v22 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v23 = load i64, ptr %v22, align 8, !invariant.load !0
  %v32 = getelementptr inbounds i64, ptr %symbols, i64 7
  %v33 = load i64, ptr %v32, align 8, !invariant.load !0
  %v38 = mul i64 1, %v33
  %v39 = mul i64 %v38, 1
  %v40 = mul i64 %v39, 0
  %v41 = mul i64 %v39, 1
  %v42 = mul i64 %v39, 2
  %v43 = mul i64 %v39, 3
  %v44 = mul i64 %v39, 4
  %v71 = insertelement <8 x i64> poison, i64 %v33, i64 0
  %v72 = shufflevector <8 x i64> %v71, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v24 = mul i64 %v20, %v23
  %v69 = insertelement <8 x i64> poison, i64 %v20, i64 0
  %v70 = shufflevector <8 x i64> %v69, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v25 = add i64 %v24, %v21
  %v26 = getelementptr float, ptr %p0, i64 %v25
  call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr align 4 %v26, <8 x i1> %v14)
  br label %filled19
filled19:
  %v27 = sext i32 %v15 to i64
  %v28 = add i64 %v24, %v27
  %v29 = getelementptr float, ptr %p0, i64 %v28
  %v30 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v29, <8 x i1> %v14, <8 x float> zeroinitializer)
  %v31 = freeze <8 x float> %v30
  %v34 = mul i64 %v27, %v33
  %v35 = add i64 %v34, %v20
  %v36 = mul i64 %v35, 1
  %v37 = getelementptr float, ptr %p1, i64 %v36
  %v45 = bitcast <8 x i1> %v14 to i8
  %v46 = icmp eq i8 %v45, -1
  br i1 %v46, label %fast47, label %slow48
fast47:
  %v50 = extractelement <8 x float> %v31, i64 0
  store float %v50, ptr %v37, align 4
  %v51 = extractelement <8 x float> %v31, i64 1
  %v52 = getelementptr float, ptr %v37, i64 %v41
  store float %v51, ptr %v52, align 4
  %v53 = extractelement <8 x float> %v31, i64 2
  %v54 = getelementptr float, ptr %v37, i64 %v42
  store float %v53, ptr %v54, align 4
  %v55 = extractelement <8 x float> %v31, i64 3
  %v56 = getelementptr float, ptr %v37, i64 %v43
  store float %v55, ptr %v56, align 4
  %v57 = extractelement <8 x float> %v31, i64 4
  %v58 = getelementptr float, ptr %v37, i64 %v44
  store float %v57, ptr %v58, align 4
  %v59 = extractelement <8 x float> %v31, i64 5
  %v60 = getelementptr float, ptr %v58, i64 %v41
  store float %v59, ptr %v60, align 4
  %v61 = extractelement <8 x float> %v31, i64 6
  %v62 = getelementptr float, ptr %v58, i64 %v42
  store float %v61, ptr %v62, align 4
  %v63 = extractelement <8 x float> %v31, i64 7
  %v64 = getelementptr float, ptr %v58, i64 %v43
  store float %v63, ptr %v64, align 4
  br label %done49
slow48:
  %v65 = insertelement <8 x i32> poison, i32 %v15, i64 0
  %v66 = shufflevector <8 x i32> %v65, <8 x i32> poison, <8 x i32> zeroinitializer
  %v67 = add <8 x i32> %v66, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v68 = sext <8 x i32> %v67 to <8 x i64>
  %v73 = mul <8 x i64> %v68, %v72
  %v74 = add <8 x i64> %v73, %v70
  %v75 = mul <8 x i64> %v74, splat (i64 1)
  %v76 = getelementptr float, ptr %p1, <8 x i64> %v75
  call void @llvm.masked.scatter.v8f32.v8p0(<8 x float> %v31, <8 x ptr> align 4 %v76, <8 x i1> %v14)
  br label %done49
done49:
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
