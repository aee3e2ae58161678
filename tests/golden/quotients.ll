define internal void @jwarp_quotients.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
entry:
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
  %v7 = and i64 %fill, 1
  %v8 = icmp ne i64 %v7, 0
  br i1 %v8, label %fill9, label %filled10
fill9:
  %v11 = sext i32 %v6 to i64
  %v12 = getelementptr i32, ptr %p0, i64 %v11
  call void @llvm.masked.store.v8i32.p0(<8 x i32> zeroinitializer, ptr align 4 %v12, <8 x i1> %v5)
  br label %filled10
filled10:
  %v13 = and i64 %fill, 2
  %v14 = icmp ne i64 %v13, 0
  br i1 %v14, label %fill15, label %filled16
fill15:
  %v17 = sext i32 %v6 to i64
  %v18 = getelementptr i32, ptr %p1, i64 %v17
  call void @llvm.masked.store.v8i32.p0(<8 x i32> zeroinitializer, ptr align 4 %v18, <8 x i1> %v5)
  br label %filled16
filled16:
  %v19 = sext i32 %v6 to i64
  %v20 = getelementptr i32, ptr %p0, i64 %v19
  %v21 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v20, <8 x i1> %v5, <8 x i32> zeroinitializer)
  %v22 = freeze <8 x i32> %v21
  %v23 = getelementptr i32, ptr %p1, i64 %v19
  %v24 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v23, <8 x i1> %v5, <8 x i32> zeroinitializer)
  %v25 = freeze <8 x i32> %v24
  %v26 = icmp eq <8 x i32> %v25, splat (i32 0)
  %v27 = select <8 x i1> %v26, <8 x i32> splat (i32 1), <8 x i32> %v25
  %v28 = icmp eq <8 x i32> %v22, splat (i32 -2147483648)
  %v29 = icmp eq <8 x i32> %v25, splat (i32 -1)
  %v30 = and <8 x i1> %v28, %v29
  %v31 = select <8 x i1> %v30, <8 x i32> splat (i32 1), <8 x i32> %v27
  %v32 = freeze <8 x i32> %v31
  %v33 = sitofp <8 x i32> %v22 to <8 x double>
  %v34 = sitofp <8 x i32> %v32 to <8 x double>
  %v35 = fdiv <8 x double> %v33, %v34
  %v36 = fptosi <8 x double> %v35 to <8 x i32>
  %v37 = mul <8 x i32> %v36, %v32
  %v38 = sub <8 x i32> %v22, %v37
  %v39 = icmp ne <8 x i32> %v38, splat (i32 0)
  %v40 = xor <8 x i32> %v38, %v32
  %v41 = icmp slt <8 x i32> %v40, splat (i32 0)
  %v42 = sub <8 x i32> %v36, splat (i32 1)
  %v43 = and <8 x i1> %v39, %v41
  %v44 = select <8 x i1> %v43, <8 x i32> %v42, <8 x i32> %v36
  %v45 = select <8 x i1> %v26, <8 x i32> splat (i32 -1), <8 x i32> %v44
  %v46 = sdiv <8 x i32> %v22, splat (i32 7)
  %v47 = mul <8 x i32> %v46, splat (i32 7)
  %v48 = sub <8 x i32> %v22, %v47
  %v49 = add <8 x i32> %v45, %v48
  %v50 = getelementptr i32, ptr %p2, i64 %v19
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v49, ptr align 4 %v50, <8 x i1> %v5)
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
