define internal void @jwarp_reverse.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v7 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v8 = load i64, ptr %v7, align 8, !invariant.load !0
  %v9 = trunc i64 %v8 to i32
  %v10 = sub i32 %v9, 1
  %v15 = add i64 0, -1
  %v16 = mul i64 %v15, 1
  %v17 = mul i64 %v16, 0
  %v18 = mul i64 %v16, 1
  %v19 = mul i64 %v16, 2
  %v20 = mul i64 %v16, 3
  %v21 = mul i64 %v16, 4
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
  %v11 = sub i32 %v10, %v6
  %v12 = sext i32 %v11 to i64
  %v13 = mul i64 %v12, 1
  %v14 = getelementptr float, ptr %p0, i64 %v13
  %v22 = add i64 %v12, -7
  %v23 = icmp ult i64 %v12, %v8
  %v24 = icmp ult i64 %v22, %v8
  %v25 = and i1 %v23, %v24
  br i1 %v25, label %fast26, label %slow27
fast26:
  %v29 = load float, ptr %v14, align 4
  %v30 = insertelement <8 x float> poison, float %v29, i64 0
  %v31 = getelementptr float, ptr %v14, i64 %v18
  %v32 = load float, ptr %v31, align 4
  %v33 = insertelement <8 x float> %v30, float %v32, i64 1
  %v34 = getelementptr float, ptr %v14, i64 %v19
  %v35 = load float, ptr %v34, align 4
  %v36 = insertelement <8 x float> %v33, float %v35, i64 2
  %v37 = getelementptr float, ptr %v14, i64 %v20
  %v38 = load float, ptr %v37, align 4
  %v39 = insertelement <8 x float> %v36, float %v38, i64 3
  %v40 = getelementptr float, ptr %v14, i64 %v21
  %v41 = load float, ptr %v40, align 4
  %v42 = insertelement <8 x float> %v39, float %v41, i64 4
  %v43 = getelementptr float, ptr %v40, i64 %v18
  %v44 = load float, ptr %v43, align 4
  %v45 = insertelement <8 x float> %v42, float %v44, i64 5
  %v46 = getelementptr float, ptr %v40, i64 %v19
  %v47 = load float, ptr %v46, align 4
  %v48 = insertelement <8 x float> %v45, float %v47, i64 6
  %v49 = getelementptr float, ptr %v40, i64 %v20
  %v50 = load float, ptr %v49, align 4
  %v51 = insertelement <8 x float> %v48, float %v50, i64 7
  br label %done28
slow27:
  %v52 = insertelement <8 x i32> poison, i32 %v11, i64 0
  %v53 = shufflevector <8 x i32> %v52, <8 x i32> poison, <8 x i32> zeroinitializer
  %v54 = add <8 x i32> %v53, <i32 0, i32 -1, i32 -2, i32 -3, i32 -4, i32 -5, i32 -6, i32 -7>
  %v55 = sext <8 x i32> %v54 to <8 x i64>
  %v56 = mul <8 x i64> %v55, splat (i64 1)
  %v57 = getelementptr float, ptr %p0, <8 x i64> %v56
  %v58 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v57, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v59 = freeze <8 x float> %v58
  br label %done28
done28:
  %v60 = phi <8 x float> [%v51, %fast26], [%v59, %slow27]
  %v61 = sext i32 %v6 to i64
  %v62 = getelementptr float, ptr %p1, i64 %v61
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v60, ptr align 4 %v62, <8 x i1> %v5)
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
