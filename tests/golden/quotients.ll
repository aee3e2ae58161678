define internal void @jwarp_quotients.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
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
  %v6 = sext i32 %v1 to i64
  %v7 = getelementptr i32, ptr %p0, i64 %v6
  %v8 = load <8 x i32>, ptr %v7, align 4
  %v9 = getelementptr i32, ptr %p1, i64 %v6
  %v10 = load <8 x i32>, ptr %v9, align 4
  %v11 = icmp eq <8 x i32> %v10, splat (i32 0)
  %v12 = select <8 x i1> %v11, <8 x i32> splat (i32 1), <8 x i32> %v10
  %v13 = icmp eq <8 x i32> %v8, splat (i32 -2147483648)
  %v14 = icmp eq <8 x i32> %v10, splat (i32 -1)
  %v15 = and <8 x i1> %v13, %v14
  %v16 = select <8 x i1> %v15, <8 x i32> splat (i32 1), <8 x i32> %v12
  %v17 = freeze <8 x i32> %v16
  %v18 = sitofp <8 x i32> %v8 to <8 x double>
  %v19 = sitofp <8 x i32> %v17 to <8 x double>
  %v20 = fdiv <8 x double> %v18, %v19
  %v21 = fptosi <8 x double> %v20 to <8 x i32>
  %v22 = mul <8 x i32> %v21, %v17
  %v23 = sub <8 x i32> %v8, %v22
  %v24 = icmp ne <8 x i32> %v23, splat (i32 0)
  %v25 = xor <8 x i32> %v23, %v17
  %v26 = icmp slt <8 x i32> %v25, splat (i32 0)
  %v27 = sub <8 x i32> %v21, splat (i32 1)
  %v28 = and <8 x i1> %v24, %v26
  %v29 = select <8 x i1> %v28, <8 x i32> %v27, <8 x i32> %v21
  %v30 = select <8 x i1> %v11, <8 x i32> splat (i32 -1), <8 x i32> %v29
  %v31 = sdiv <8 x i32> %v8, splat (i32 7)
  %v32 = mul <8 x i32> %v31, splat (i32 7)
  %v33 = sub <8 x i32> %v8, %v32
  %v34 = add <8 x i32> %v30, %v33
  %v35 = getelementptr i32, ptr %p2, i64 %v6
  store <8 x i32> %v34, ptr %v35, align 4
  br label %done5
slow4:
  %v36 = trunc i64 %left to i32
  %v37 = insertelement <8 x i32> poison, i32 %v36, i64 0
  %v38 = shufflevector <8 x i32> %v37, <8 x i32> poison, <8 x i32> zeroinitializer
  %v39 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v38
  %v40 = sext i32 %v1 to i64
  %v41 = getelementptr i32, ptr %p0, i64 %v40
  %v42 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v41, <8 x i1> %v39, <8 x i32> zeroinitializer)
  %v43 = freeze <8 x i32> %v42
  %v44 = getelementptr i32, ptr %p1, i64 %v40
  %v45 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v44, <8 x i1> %v39, <8 x i32> zeroinitializer)
  %v46 = freeze <8 x i32> %v45
  %v47 = icmp eq <8 x i32> %v46, splat (i32 0)
  %v48 = select <8 x i1> %v47, <8 x i32> splat (i32 1), <8 x i32> %v46
  %v49 = icmp eq <8 x i32> %v43, splat (i32 -2147483648)
  %v50 = icmp eq <8 x i32> %v46, splat (i32 -1)
  %v51 = and <8 x i1> %v49, %v50
  %v52 = select <8 x i1> %v51, <8 x i32> splat (i32 1), <8 x i32> %v48
  %v53 = freeze <8 x i32> %v52
  %v54 = sitofp <8 x i32> %v43 to <8 x double>
  %v55 = sitofp <8 x i32> %v53 to <8 x double>
  %v56 = fdiv <8 x double> %v54, %v55
  %v57 = fptosi <8 x double> %v56 to <8 x i32>
  %v58 = mul <8 x i32> %v57, %v53
  %v59 = sub <8 x i32> %v43, %v58
  %v60 = icmp ne <8 x i32> %v59, splat (i32 0)
  %v61 = xor <8 x i32> %v59, %v53
  %v62 = icmp slt <8 x i32> %v61, splat (i32 0)
  %v63 = sub <8 x i32> %v57, splat (i32 1)
  %v64 = and <8 x i1> %v60, %v62
  %v65 = select <8 x i1> %v64, <8 x i32> %v63, <8 x i32> %v57
  %v66 = select <8 x i1> %v47, <8 x i32> splat (i32 -1), <8 x i32> %v65
  %v67 = sdiv <8 x i32> %v43, splat (i32 7)
  %v68 = mul <8 x i32> %v67, splat (i32 7)
  %v69 = sub <8 x i32> %v43, %v68
  %v70 = add <8 x i32> %v66, %v69
  %v71 = getelementptr i32, ptr %p2, i64 %v40
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v70, ptr align 4 %v71, <8 x i1> %v39)
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
