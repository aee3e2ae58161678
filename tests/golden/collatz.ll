define internal void @jwarp_collatz.rows(ptr noalias %p0, ptr noalias %p1, ptr noalias readonly %symbols, ptr noalias %failure, i64 %row.begin, i64 %row.end, i64 %col.begin, i64 %col.end, i64 %fill, i64 %first.thread, ptr noalias %tapes) nounwind {
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
  br label %loop9
loop9:
  br label %loop.head10
loop.head10:
  %v14 = phi i32 [0, %loop9], [%v35, %loop.latch13]
  %v15 = phi <8 x i32> [%v8, %loop9], [%v36, %loop.latch13]
  %v16 = phi <8 x i32> [splat (i32 0), %loop9], [%v39, %loop.latch13]
  %v17 = phi <8 x i1> [splat (i1 true), %loop9], [%v19, %loop.latch13]
  %v18 = icmp sgt <8 x i32> %v15, splat (i32 1)
  %v19 = and <8 x i1> %v17, %v18
  %v20 = bitcast <8 x i1> %v19 to i8
  %v21 = icmp ne i8 %v20, 0
  br i1 %v21, label %loop.body11, label %loop.done12
loop.body11:
  %v22 = sdiv <8 x i32> %v15, splat (i32 2)
  %v23 = mul <8 x i32> %v22, splat (i32 2)
  %v24 = sub <8 x i32> %v15, %v23
  %v25 = icmp eq <8 x i32> %v24, splat (i32 0)
  %v26 = icmp ne <8 x i32> %v24, splat (i32 0)
  %v27 = xor <8 x i32> %v24, splat (i32 2)
  %v28 = icmp slt <8 x i32> %v27, splat (i32 0)
  %v29 = sub <8 x i32> %v22, splat (i32 1)
  %v30 = and <8 x i1> %v26, %v28
  %v31 = select <8 x i1> %v30, <8 x i32> %v29, <8 x i32> %v22
  %v32 = mul <8 x i32> splat (i32 3), %v15
  %v33 = add <8 x i32> %v32, splat (i32 1)
  %v34 = select <8 x i1> %v25, <8 x i32> %v31, <8 x i32> %v33
  %v35 = add i32 %v14, 1
  %v36 = select <8 x i1> %v19, <8 x i32> %v34, <8 x i32> %v15
  %v37 = insertelement <8 x i32> poison, i32 %v35, i64 0
  %v38 = shufflevector <8 x i32> %v37, <8 x i32> poison, <8 x i32> zeroinitializer
  %v39 = select <8 x i1> %v19, <8 x i32> %v38, <8 x i32> %v16
  br label %loop.latch13
loop.latch13:
  br label %loop.head10
loop.done12:
  %v40 = getelementptr i32, ptr %p1, i64 %v6
  store <8 x i32> %v16, ptr %v40, align 4
  br label %done5
slow4:
  %v41 = trunc i64 %left to i32
  %v42 = insertelement <8 x i32> poison, i32 %v41, i64 0
  %v43 = shufflevector <8 x i32> %v42, <8 x i32> poison, <8 x i32> zeroinitializer
  %v44 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v43
  %v45 = sext i32 %v1 to i64
  %v46 = getelementptr i32, ptr %p0, i64 %v45
  %v47 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr align 4 %v46, <8 x i1> %v44, <8 x i32> zeroinitializer)
  %v48 = freeze <8 x i32> %v47
  br label %loop49
loop49:
  br label %loop.head50
loop.head50:
  %v54 = phi i32 [0, %loop49], [%v75, %loop.latch53]
  %v55 = phi <8 x i32> [%v48, %loop49], [%v76, %loop.latch53]
  %v56 = phi <8 x i32> [splat (i32 0), %loop49], [%v79, %loop.latch53]
  %v57 = phi <8 x i1> [%v44, %loop49], [%v59, %loop.latch53]
  %v58 = icmp sgt <8 x i32> %v55, splat (i32 1)
  %v59 = and <8 x i1> %v57, %v58
  %v60 = bitcast <8 x i1> %v59 to i8
  %v61 = icmp ne i8 %v60, 0
  br i1 %v61, label %loop.body51, label %loop.done52
loop.body51:
  %v62 = sdiv <8 x i32> %v55, splat (i32 2)
  %v63 = mul <8 x i32> %v62, splat (i32 2)
  %v64 = sub <8 x i32> %v55, %v63
  %v65 = icmp eq <8 x i32> %v64, splat (i32 0)
  %v66 = icmp ne <8 x i32> %v64, splat (i32 0)
  %v67 = xor <8 x i32> %v64, splat (i32 2)
  %v68 = icmp slt <8 x i32> %v67, splat (i32 0)
  %v69 = sub <8 x i32> %v62, splat (i32 1)
  %v70 = and <8 x i1> %v66, %v68
  %v71 = select <8 x i1> %v70, <8 x i32> %v69, <8 x i32> %v62
  %v72 = mul <8 x i32> splat (i32 3), %v55
  %v73 = add <8 x i32> %v72, splat (i32 1)
  %v74 = select <8 x i1> %v65, <8 x i32> %v71, <8 x i32> %v73
  %v75 = add i32 %v54, 1
  %v76 = select <8 x i1> %v59, <8 x i32> %v74, <8 x i32> %v55
  %v77 = insertelement <8 x i32> poison, i32 %v75, i64 0
  %v78 = shufflevector <8 x i32> %v77, <8 x i32> poison, <8 x i32> zeroinitializer
  %v79 = select <8 x i1> %v59, <8 x i32> %v78, <8 x i32> %v56
  br label %loop.latch53
loop.latch53:
  br label %loop.head50
loop.done52:
  %v80 = getelementptr i32, ptr %p1, i64 %v45
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %v56, ptr align 4 %v80, <8 x i1> %v44)
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
