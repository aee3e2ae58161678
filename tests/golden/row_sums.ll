define internal void @jwarp_row_sums.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
  %v7 = getelementptr inbounds i64, ptr %symbols, i64 5
  %v8 = load i64, ptr %v7, align 8, !invariant.load !0
  %v9 = trunc i64 %v8 to i32
  %v28 = mul i64 1, %v8
  %v29 = mul i64 %v28, 1
  %v30 = mul i64 %v29, 0
  %v31 = mul i64 %v29, 1
  %v32 = mul i64 %v29, 2
  %v33 = mul i64 %v29, 3
  %v34 = mul i64 %v29, 4
  %v70 = insertelement <8 x i64> poison, i64 %v8, i64 0
  %v71 = shufflevector <8 x i64> %v70, <8 x i64> poison, <8 x i32> zeroinitializer
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
  %v20 = phi <8 x float> [splat (float 0x0000000000000000), %loop10], [%next18, %loop.latch17]
  %v21 = icmp slt i32 %i14, %v9
  br i1 %v21, label %loop.body12, label %loop.done13
loop.body12:
  %v22 = sext i32 %v6 to i64
  %v23 = sext i32 %i14 to i64
  %v24 = mul i64 %v22, %v8
  %v25 = add i64 %v24, %v23
  %v26 = mul i64 %v25, 1
  %v27 = getelementptr float, ptr %p0, i64 %v26
  %v35 = bitcast <8 x i1> %v5 to i8
  %v36 = icmp eq i8 %v35, -1
  br i1 %v36, label %fast37, label %slow38
fast37:
  %v40 = load float, ptr %v27, align 4
  %v41 = insertelement <8 x float> poison, float %v40, i64 0
  %v42 = getelementptr float, ptr %v27, i64 %v31
  %v43 = load float, ptr %v42, align 4
  %v44 = insertelement <8 x float> %v41, float %v43, i64 1
  %v45 = getelementptr float, ptr %v27, i64 %v32
  %v46 = load float, ptr %v45, align 4
  %v47 = insertelement <8 x float> %v44, float %v46, i64 2
  %v48 = getelementptr float, ptr %v27, i64 %v33
  %v49 = load float, ptr %v48, align 4
  %v50 = insertelement <8 x float> %v47, float %v49, i64 3
  %v51 = getelementptr float, ptr %v27, i64 %v34
  %v52 = load float, ptr %v51, align 4
  %v53 = insertelement <8 x float> %v50, float %v52, i64 4
  %v54 = getelementptr float, ptr %v51, i64 %v31
  %v55 = load float, ptr %v54, align 4
  %v56 = insertelement <8 x float> %v53, float %v55, i64 5
  %v57 = getelementptr float, ptr %v51, i64 %v32
  %v58 = load float, ptr %v57, align 4
  %v59 = insertelement <8 x float> %v56, float %v58, i64 6
  %v60 = getelementptr float, ptr %v51, i64 %v33
  %v61 = load float, ptr %v60, align 4
  %v62 = insertelement <8 x float> %v59, float %v61, i64 7
  br label %done39
slow38:
  %v63 = insertelement <8 x i32> poison, i32 %v6, i64 0
  %v64 = shufflevector <8 x i32> %v63, <8 x i32> poison, <8 x i32> zeroinitializer
  %v65 = add <8 x i32> %v64, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v66 = sext <8 x i32> %v65 to <8 x i64>
  %v67 = sext i32 %i14 to i64
  %v68 = insertelement <8 x i64> poison, i64 %v67, i64 0
  %v69 = shufflevector <8 x i64> %v68, <8 x i64> poison, <8 x i32> zeroinitializer
  %v72 = mul <8 x i64> %v66, %v71
  %v73 = add <8 x i64> %v72, %v69
  %v74 = mul <8 x i64> %v73, splat (i64 1)
  %v75 = getelementptr float, ptr %p0, <8 x i64> %v74
  %v76 = call <8 x float> @llvm.masked.gather.v8f32.v8p0(<8 x ptr> align 4 %v75, <8 x i1> %v5, <8 x float> zeroinitializer)
  %v77 = freeze <8 x float> %v76
  br label %done39
done39:
  %v78 = phi <8 x float> [%v62, %fast37], [%v77, %slow38]
  %v79 = fadd contract <8 x float> %v20, %v78
  %i15 = add i32 %i14, 1
  br label %loop.latch17
loop.latch17:
  %next18 = freeze <8 x float> %v79
  br label %loop.head11
loop.done13:
  %v80 = sext i32 %v6 to i64
  %v81 = getelementptr float, ptr %p1, i64 %v80
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v20, ptr align 4 %v81, <8 x i1> %v5)
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
