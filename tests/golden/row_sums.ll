define internal void @jwarp_row_sums.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v7 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v8 = load i64, ptr %v7, align 8, !invariant.load !0
  %v9 = trunc i64 %v8 to i32
  %v26 = mul i64 1, %v8
  %v27 = mul i64 %v26, 1
  %v28 = mul i64 %v27, 0
  %v29 = mul i64 %v27, 1
  %v30 = mul i64 %v27, 2
  %v31 = mul i64 %v27, 3
  %v32 = mul i64 %v27, 4
  %v34 = getelementptr inbounds i64, ptr %symbols, i64 4
  %v35 = load i64, ptr %v34, align 8, !invariant.load !0
  %v74 = insertelement <8 x i64> poison, i64 %v8, i64 0
  %v75 = shufflevector <8 x i64> %v74, <8 x i64> poison, <8 x i32> zeroinitializer
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
  br label %loop10
loop10:
  br label %loop.head11
loop.head11:
  %i14 = phi i32 [0, %loop10], [%i15, %loop.latch17]
  %v18 = phi <8 x float> [splat (float 0x0000000000000000), %loop10], [%v83, %loop.latch17]
  %v19 = icmp slt i32 %i14, %v9
  br i1 %v19, label %loop.body12, label %loop.done13
loop.body12:
  %v20 = sext i32 %v6 to i64
  %v21 = sext i32 %i14 to i64
  %v22 = mul i64 %v20, %v8
  %v23 = add i64 %v22, %v21
  %v24 = mul i64 %v23, 1
  %v25 = getelementptr float, ptr %p0, i64 %v24
  %v33 = add i64 %v20, 7
  %v36 = icmp ult i64 %v20, %v35
  %v37 = icmp ult i64 %v33, %v35
  %v38 = and i1 %v36, %v37
  %v39 = icmp ult i64 %v21, %v8
  %v40 = and i1 %v38, %v39
  br i1 %v40, label %fast41, label %slow42
fast41:
  %v44 = load float, ptr %v25, align 4
  %v45 = insertelement <8 x float> poison, float %v44, i64 0
  %v46 = getelementptr float, ptr %v25, i64 %v29
  %v47 = load float, ptr %v46, align 4
  %v48 = insertelement <8 x float> %v45, float %v47, i64 1
  %v49 = getelementptr float, ptr %v25, i64 %v30
  %v50 = load float, ptr %v49, align 4
  %v51 = insertelement <8 x float> %v48, float %v50, i64 2
  %v52 = getelementptr float, ptr %v25, i64 %v31
  %v53 = load float, ptr %v52, align 4
  %v54 = insertelement <8 x float> %v51, float %v53, i64 3
  %v55 = getelementptr float, ptr %v25, i64 %v32
  %v56 = load float, ptr %v55, align 4
  %v57 = insertelement <8 x float> %v54, float %v56, i64 4
  %v58 = getelementptr float, ptr %v55, i64 %v29
  %v59 = load float, ptr %v58, align 4
  %v60 = insertelement <8 x float> %v57, float %v59, i64 5
  %v61 = getelementptr float, ptr %v55, i64 %v30
  %v62 = load float, ptr %v61, align 4
  %v63 = insertelement <8 x float> %v60, float %v62, i64 6
  %v64 = getelementptr float, ptr %v55, i64 %v31
  %v65 = load float, ptr %v64, align 4
  %v66 = insertelement <8 x float> %v63, float %v65, i64 7
  br label %done43
slow42:
  %v67 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v68 = shufflevector <8 x i32> %v67, <8 x i32> poison, <8 x i32> zeroinitializer
  %v69 = add <8 x i32> %v68, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v70 = sext <8 x i32> %v69 to <8 x i64>
  %v71 = sext i32 %i14 to i64
  %v72 = insertelement <8 x i64> poison, i64 %v71, i64 0
  %v73 = shufflevector <8 x i64> %v72, <8 x i64> poison, <8 x i32> zeroinitializer
  %v76 = mul <8 x i64> %v70, %v75
  %v77 = add <8 x i64> %v76, %v73
  %v78 = mul <8 x i64> %v77, splat (i64 1)
  %v79 = getelementptr float, ptr %p0, <8 x i64> %v78
  %v80 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v79, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v81 = freeze <8 x float> %v80
  br label %done43
done43:
  %v82 = phi <8 x float> [%v66, %fast41], [%v81, %slow42]
  %v83 = fadd contract <8 x float> %v18, %v82
  %i15 = add i32 %i14, 1
  br label %loop.latch17
loop.latch17:
  br label %loop.head11
loop.done13:
  %v84 = sext i32 %v6 to i64
  %v85 = getelementptr float, ptr %p1, i64 %v84
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v18, ptr align 4 %v85, <8 x i1> %v5)
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
