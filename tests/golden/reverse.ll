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
  %v22 = bitcast <8 x i1> %v5 to i8
  %v23 = icmp eq i8 %v22, -1
  br i1 %v23, label %fast24, label %slow25
fast24:
  %v27 = load float, ptr %v14, align 4
  %v28 = insertelement <8 x float> poison, float %v27, i64 0
  %v29 = getelementptr float, ptr %v14, i64 %v18
  %v30 = load float, ptr %v29, align 4
  %v31 = insertelement <8 x float> %v28, float %v30, i64 1
  %v32 = getelementptr float, ptr %v14, i64 %v19
  %v33 = load float, ptr %v32, align 4
  %v34 = insertelement <8 x float> %v31, float %v33, i64 2
  %v35 = getelementptr float, ptr %v14, i64 %v20
  %v36 = load float, ptr %v35, align 4
  %v37 = insertelement <8 x float> %v34, float %v36, i64 3
  %v38 = getelementptr float, ptr %v14, i64 %v21
  %v39 = load float, ptr %v38, align 4
  %v40 = insertelement <8 x float> %v37, float %v39, i64 4
  %v41 = getelementptr float, ptr %v38, i64 %v18
  %v42 = load float, ptr %v41, align 4
  %v43 = insertelement <8 x float> %v40, float %v42, i64 5
  %v44 = getelementptr float, ptr %v38, i64 %v19
  %v45 = load float, ptr %v44, align 4
  %v46 = insertelement <8 x float> %v43, float %v45, i64 6
  %v47 = getelementptr float, ptr %v38, i64 %v20
  %v48 = load float, ptr %v47, align 4
  %v49 = insertelement <8 x float> %v46, float %v48, i64 7
  br label %done26
slow25:
  %v50 = insertelement <8 x i32> poison, i32 %v11, i64 0
  %v51 = shufflevector <8 x i32> %v50, <8 x i32> poison, <8 x i32> zeroinitializer
  %v52 = add <8 x i32> %v51, <i32 0, i32 -1, i32 -2, i32 -3, i32 -4, i32 -5, i32 -6, i32 -7>
  %v53 = sext <8 x i32> %v52 to <8 x i64>
  %v54 = mul <8 x i64> %v53, splat (i64 1)
  %v55 = getelementptr float, ptr %p0, <8 x i64> %v54
  %v56 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v55, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v57 = freeze <8 x float> %v56
  br label %done26
done26:
  %v58 = phi <8 x float> [%v49, %fast24], [%v57, %slow25]
  %v59 = sext i32 %v6 to i64
  %v60 = getelementptr float, ptr %p1, i64 %v59
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v58, ptr align 4 %v60, <8 x i1> %v5)
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
