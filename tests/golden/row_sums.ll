define internal void @jwarp_row_sums.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v6 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v7 = load i64, ptr %v6, align 8, !invariant.load !0
  %v8 = trunc i64 %v7 to i32
  %v25 = mul i64 1, %v7
  %v26 = mul i64 %v25, 1
  %v27 = mul i64 %v26, 0
  %v28 = mul i64 %v26, 1
  %v29 = mul i64 %v26, 2
  %v30 = mul i64 %v26, 3
  %v31 = mul i64 %v26, 4
  %v84 = insertelement <8 x i64> poison, i64 %v7, i64 0
  %v85 = shufflevector <8 x i64> %v84, <8 x i64> poison, <8 x i32> zeroinitializer
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
  br label %loop9
loop9:
  br label %loop.head10
loop.head10:
  %i13 = phi i32 [0, %loop9], [%i14, %loop.latch16]
  %v17 = phi <8 x float> [splat (float 0x0000000000000000), %loop9], [%v55, %loop.latch16]
  %v18 = icmp slt i32 %i13, %v8
  br i1 %v18, label %loop.body11, label %loop.done12
loop.body11:
  %v19 = sext i32 %v1 to i64
  %v20 = sext i32 %i13 to i64
  %v21 = mul i64 %v19, %v7
  %v22 = add i64 %v21, %v20
  %v23 = mul i64 %v22, 1
  %v24 = getelementptr float, ptr %p0, i64 %v23
  %v32 = load float, ptr %v24, align 4
  %v33 = insertelement <8 x float> poison, float %v32, i64 0
  %v34 = getelementptr float, ptr %v24, i64 %v28
  %v35 = load float, ptr %v34, align 4
  %v36 = insertelement <8 x float> %v33, float %v35, i64 1
  %v37 = getelementptr float, ptr %v24, i64 %v29
  %v38 = load float, ptr %v37, align 4
  %v39 = insertelement <8 x float> %v36, float %v38, i64 2
  %v40 = getelementptr float, ptr %v24, i64 %v30
  %v41 = load float, ptr %v40, align 4
  %v42 = insertelement <8 x float> %v39, float %v41, i64 3
  %v43 = getelementptr float, ptr %v24, i64 %v31
  %v44 = load float, ptr %v43, align 4
  %v45 = insertelement <8 x float> %v42, float %v44, i64 4
  %v46 = getelementptr float, ptr %v43, i64 %v28
  %v47 = load float, ptr %v46, align 4
  %v48 = insertelement <8 x float> %v45, float %v47, i64 5
  %v49 = getelementptr float, ptr %v43, i64 %v29
  %v50 = load float, ptr %v49, align 4
  %v51 = insertelement <8 x float> %v48, float %v50, i64 6
  %v52 = getelementptr float, ptr %v43, i64 %v30
  %v53 = load float, ptr %v52, align 4
  %v54 = insertelement <8 x float> %v51, float %v53, i64 7
  %v55 = fadd contract <8 x float> %v17, %v54
  %i14 = add i32 %i13, 1
  br label %loop.latch16
loop.latch16:
  br label %loop.head10
loop.done12:
  %v56 = sext i32 %v1 to i64
  %v57 = getelementptr float, ptr %p1, i64 %v56
  store <8 x float> %v17, ptr %v57, align 4
  br label %done5
slow4:
  %v58 = trunc i64 %left to i32
  %v59 = insertelement <8 x i32> poison, i32 %v58, i64 0
  %v60 = shufflevector <8 x i32> %v59, <8 x i32> poison, <8 x i32> zeroinitializer
  %v61 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v60
  br label %loop62
loop62:
  br label %loop.head63
loop.head63:
  %i66 = phi i32 [0, %loop62], [%i67, %loop.latch69]
  %v70 = phi <8 x float> [splat (float 0x0000000000000000), %loop62], [%v92, %loop.latch69]
  %v71 = icmp slt i32 %i66, %v8
  br i1 %v71, label %loop.body64, label %loop.done65
loop.body64:
  %v72 = sext i32 %v1 to i64
  %v73 = sext i32 %i66 to i64
  %v74 = mul i64 %v72, %v7
  %v75 = add i64 %v74, %v73
  %v76 = mul i64 %v75, 1
  %v77 = getelementptr float, ptr %p0, i64 %v76
  %v78 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v79 = shufflevector <8 x i32> %v78, <8 x i32> poison, <8 x i32> zeroinitializer
  %v80 = add <8 x i32> %v79, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v81 = sext <8 x i32> %v80 to <8 x i64>
  %v82 = insertelement <8 x i64> poison, i64 %v73, i64 0
  %v83 = shufflevector <8 x i64> %v82, <8 x i64> poison, <8 x i32> zeroinitializer
  %v86 = mul <8 x i64> %v81, %v85
  %v87 = add <8 x i64> %v86, %v83
  %v88 = mul <8 x i64> %v87, splat (i64 1)
  %v89 = getelementptr float, ptr %p0, <8 x i64> %v88
  %v90 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v89, <8 x i1> %v61, <8 x float> zeroinitializer)
  %v91 = freeze <8 x float> %v90
  %v92 = fadd contract <8 x float> %v70, %v91
  %i67 = add i32 %i66, 1
  br label %loop.latch69
loop.latch69:
  br label %loop.head63
loop.done65:
  %v93 = sext i32 %v1 to i64
  %v94 = getelementptr float, ptr %p1, i64 %v93
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v70, ptr align 4 %v94, <8 x i1> %v61)
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
