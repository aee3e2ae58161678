define internal void @jwarp_reverse.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v6 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v7 = load i64, ptr %v6, align 8, !invariant.load !0
  %v8 = trunc i64 %v7 to i32
  %v9 = sub i32 %v8, 1
  %v14 = add i64 0, -1
  %v15 = mul i64 %v14, 1
  %v16 = mul i64 %v15, 0
  %v17 = mul i64 %v15, 1
  %v18 = mul i64 %v15, 2
  %v19 = mul i64 %v15, 3
  %v20 = mul i64 %v15, 4
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
  %v10 = sub i32 %v9, %v1
  %v11 = sext i32 %v10 to i64
  %v12 = mul i64 %v11, 1
  %v13 = getelementptr float, ptr %p0, i64 %v12
  %v21 = load float, ptr %v13, align 4
  %v22 = insertelement <8 x float> poison, float %v21, i64 0
  %v23 = getelementptr float, ptr %v13, i64 %v17
  %v24 = load float, ptr %v23, align 4
  %v25 = insertelement <8 x float> %v22, float %v24, i64 1
  %v26 = getelementptr float, ptr %v13, i64 %v18
  %v27 = load float, ptr %v26, align 4
  %v28 = insertelement <8 x float> %v25, float %v27, i64 2
  %v29 = getelementptr float, ptr %v13, i64 %v19
  %v30 = load float, ptr %v29, align 4
  %v31 = insertelement <8 x float> %v28, float %v30, i64 3
  %v32 = getelementptr float, ptr %v13, i64 %v20
  %v33 = load float, ptr %v32, align 4
  %v34 = insertelement <8 x float> %v31, float %v33, i64 4
  %v35 = getelementptr float, ptr %v32, i64 %v17
  %v36 = load float, ptr %v35, align 4
  %v37 = insertelement <8 x float> %v34, float %v36, i64 5
  %v38 = getelementptr float, ptr %v32, i64 %v18
  %v39 = load float, ptr %v38, align 4
  %v40 = insertelement <8 x float> %v37, float %v39, i64 6
  %v41 = getelementptr float, ptr %v32, i64 %v19
  %v42 = load float, ptr %v41, align 4
  %v43 = insertelement <8 x float> %v40, float %v42, i64 7
  %v44 = sext i32 %v1 to i64
  %v45 = getelementptr float, ptr %p1, i64 %v44
  store <8 x float> %v43, ptr %v45, align 4
  br label %done5
slow4:
  %v46 = trunc i64 %left to i32
  %v47 = insertelement <8 x i32> poison, i32 %v46, i64 0
  %v48 = shufflevector <8 x i32> %v47, <8 x i32> poison, <8 x i32> zeroinitializer
  %v49 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v48
  %v50 = sub i32 %v9, %v1
  %v51 = sext i32 %v50 to i64
  %v52 = mul i64 %v51, 1
  %v53 = getelementptr float, ptr %p0, i64 %v52
  %v54 = add i64 %v51, -7
  %v55 = icmp ult i64 %v51, %v7
  %v56 = icmp ult i64 %v54, %v7
  %v57 = and i1 %v55, %v56
  br i1 %v57, label %fast58, label %slow59
fast58:
  %v61 = load float, ptr %v53, align 4
  %v62 = insertelement <8 x float> poison, float %v61, i64 0
  %v63 = getelementptr float, ptr %v53, i64 %v17
  %v64 = load float, ptr %v63, align 4
  %v65 = insertelement <8 x float> %v62, float %v64, i64 1
  %v66 = getelementptr float, ptr %v53, i64 %v18
  %v67 = load float, ptr %v66, align 4
  %v68 = insertelement <8 x float> %v65, float %v67, i64 2
  %v69 = getelementptr float, ptr %v53, i64 %v19
  %v70 = load float, ptr %v69, align 4
  %v71 = insertelement <8 x float> %v68, float %v70, i64 3
  %v72 = getelementptr float, ptr %v53, i64 %v20
  %v73 = load float, ptr %v72, align 4
  %v74 = insertelement <8 x float> %v71, float %v73, i64 4
  %v75 = getelementptr float, ptr %v72, i64 %v17
  %v76 = load float, ptr %v75, align 4
  %v77 = insertelement <8 x float> %v74, float %v76, i64 5
  %v78 = getelementptr float, ptr %v72, i64 %v18
  %v79 = load float, ptr %v78, align 4
  %v80 = insertelement <8 x float> %v77, float %v79, i64 6
  %v81 = getelementptr float, ptr %v72, i64 %v19
  %v82 = load float, ptr %v81, align 4
  %v83 = insertelement <8 x float> %v80, float %v82, i64 7
  br label %done60
slow59:
  %v84 = insertelement <8 x i32> poison, i32 %v50, i64 0
  %v85 = shufflevector <8 x i32> %v84, <8 x i32> poison, <8 x i32> zeroinitializer
  %v86 = add <8 x i32> %v85, <i32 0, i32 -1, i32 -2, i32 -3, i32 -4, i32 -5, i32 -6, i32 -7>
  %v87 = sext <8 x i32> %v86 to <8 x i64>
  %v88 = mul <8 x i64> %v87, splat (i64 1)
  %v89 = getelementptr float, ptr %p0, <8 x i64> %v88
  %v90 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v89, <8 x i1> %v49, <8 x float> zeroinitializer)
  %v91 = freeze <8 x float> %v90
  br label %done60
done60:
  %v92 = phi <8 x float> [%v83, %fast58], [%v91, %slow59]
  %v93 = sext i32 %v1 to i64
  %v94 = getelementptr float, ptr %p1, i64 %v93
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v92, ptr align 4 %v94, <8 x i1> %v49)
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
